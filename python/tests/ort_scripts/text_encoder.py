"""Sentence embeddings: token IDs of type int64 with padding and a mask, mean pooling, cosine similarity."""
import numpy as np
import onnxruntime as ort

WORDS = {word: number for number, word in enumerate("[PAD] [CLS] [SEP] the a cat dog sat ran on mat road".split())}


def tokenise(sentences):
    rows = [[1, *(WORDS[word] for word in sentence.split()), 2] for sentence in sentences]
    length = max(map(len, rows))
    ids = np.array([row + [0] * (length - len(row)) for row in rows], dtype=np.int64)
    return {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)}


def embed(session, sentences):
    tokens = tokenise(sentences)
    hidden = session.run(["last_hidden_state"], tokens)[0]
    mask = tokens["attention_mask"][..., np.newaxis]
    mean = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def main(models):
    session = ort.InferenceSession(str(models / "text_encoder.onnx"), None, ["CPUExecutionProvider"])
    vectors = embed(session, ["the cat sat on the mat", "a dog ran", "the dog ran on a road"])
    return {"vectors": vectors, "similarity": vectors @ vectors.T}
