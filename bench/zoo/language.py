"""Language models of transformers, small: encoders, decoders with and without a cache of keys and values, translation."""
import torch
import transformers
from torch import nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from spec import Call, Spec, axes, network, ones, settle, tokens

EAGER = {"attn_implementation": "eager"}
LAYERS, HEADS, WIDTH, HEAD_WIDTH, VOCABULARY = 4, 4, 256, 64, 5000
COMMON = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH, **EAGER}


def last_state(net, ids, mask):
    return net(input_ids=ids, attention_mask=mask).last_hidden_state


def masked(batch, length):
    """Token ids and their mask; the second text of a batch is half as long."""
    mask = ones(batch, length)
    if batch > 1:
        mask[1, length // 2:] = 0
    return tokens(batch, length), mask


def text_encoder(name, make, sizes, function=last_state, outputs="batch sequence -"):
    @network(name, "language")
    def build():
        return Spec(Call(settle(make()), function).eval(), masked(2, 12), ("input_ids", "attention_mask"), ("hidden",),
                    axes(input_ids="batch sequence", attention_mask="batch sequence", hidden=outputs), [masked(*size) for size in sizes])


def mean_pooled(net, ids, mask):
    """A sentence embedding: the mean over the tokens, of length 1."""
    weight = mask.unsqueeze(-1).to(torch.float32)
    state = (last_state(net, ids, mask) * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
    return nn.functional.normalize(state, dim=1)


def distilbert():
    return transformers.DistilBertModel(transformers.DistilBertConfig(vocab_size=VOCABULARY, dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=4 * WIDTH, **EAGER))


text_encoder("bert", lambda: transformers.BertModel(transformers.BertConfig(**COMMON), add_pooling_layer=False), [(1, 16), (2, 48), (1, 128)])
text_encoder("distilbert", distilbert, [(1, 64)])
text_encoder("albert", lambda: transformers.AlbertModel(transformers.AlbertConfig(embedding_size=128, **COMMON), add_pooling_layer=False), [(1, 64)])
text_encoder("deberta", lambda: transformers.DebertaV2Model(transformers.DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=32,
                                                                                         **COMMON)), [(1, 64)])
text_encoder("sentence_embedding", lambda: transformers.BertModel(transformers.BertConfig(**COMMON), add_pooling_layer=False), [(1, 32), (4, 32)], mean_pooled, "batch -")


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, **EAGER)), HEADS


def llama():
    more = {**COMMON, "intermediate_size": 688}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=2, **more)), 2


def qwen():
    more = {**COMMON, "intermediate_size": 688}
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(num_key_value_heads=2, head_dim=HEAD_WIDTH, **more)), 2


def cache_names(what, parts=("key", "value"), layers=LAYERS):
    return tuple(f"{what}.{layer}.{part}" for layer in range(layers) for part in parts)


def causal(make, cached, lengths):
    """A decoder that predicts the next token, with or without a cache. `lengths`: tokens given and tokens in the cache."""
    module, key_heads = make()

    def run(net, ids, mask, positions, *past):
        cache = DynamicCache() if cached else None
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = net(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=cached)
        if not cached:
            return result.logits
        return (result.logits, *(part for layer in result.past_key_values.layers for part in (layer.keys, layer.values)))

    def case(batch, length, past):
        positions = torch.arange(past, length + past).unsqueeze(0).expand(batch, length).contiguous()
        kept = tuple(torch.randn(batch, key_heads, past, HEAD_WIDTH) for _ in range(2 * LAYERS)) if cached else ()
        return tokens(batch, length), ones(batch, length + past), positions, *kept

    past, present = (cache_names("past"), cache_names("present")) if cached else ((), ())
    dims = axes(input_ids="batch sequence", attention_mask="batch total", position_ids="batch sequence", logits="batch sequence -")
    dims |= {name: {0: "batch", 2: "past"} for name in past} | {name: {0: "batch", 2: "total"} for name in present}
    return Spec(Call(module.eval(), run).eval(), case(2, 3, 5) if cached else case(2, 8, 0), ("input_ids", "attention_mask", "position_ids", *past),
                ("logits", *present), dims, [case(1, *length) for length in lengths])


CACHED = [(1, 1), (1, 31), (1, 32), (1, 127), (1, 512), (16, 0)]
network("gpt2", "language")(lambda: causal(gpt2, False, [(32, 0)]))
network("gpt2_cache", "language")(lambda: causal(gpt2, True, CACHED))
network("llama", "language")(lambda: causal(llama, False, [(32, 0), (100, 0)]))
network("llama_cache", "language")(lambda: causal(llama, True, CACHED))
network("qwen_cache", "language")(lambda: causal(qwen, True, [(1, 31), (16, 0)]))


def t5():
    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=64, d_ff=1024, num_layers=LAYERS, num_heads=HEADS)).eval()


def marian():
    return transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=1024, decoder_ffn_dim=1024, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **EAGER)).eval()


text_encoder("t5_encoder", lambda: t5().encoder, [(1, 64)])
text_encoder("marian_encoder", lambda: marian().model.encoder, [(1, 40)])


def decoder(head, stack):
    """A decoder over the states of an encoder, without a cache."""
    def run(net, ids, states, mask):
        return head(net)(stack(net)(input_ids=ids, encoder_hidden_states=states, encoder_attention_mask=mask, use_cache=False).last_hidden_state)
    return run


def decoder_spec(module, run, lengths):
    def case(target, source):
        return tokens(1, target), torch.randn(1, source, WIDTH), ones(1, source)
    return Spec(Call(module, run).eval(), case(7, 12), ("decoder_input_ids", "encoder_hidden_states", "encoder_attention_mask"), ("logits",),
                axes(decoder_input_ids="- target", encoder_hidden_states="- source -", encoder_attention_mask="- source", logits="- target -"),
                [case(*length) for length in lengths])


network("t5_decoder", "language")(lambda: decoder_spec(t5(), decoder(lambda net: net.lm_head, lambda net: net.decoder), [(16, 64)]))
network("marian_decoder", "language")(lambda: decoder_spec(marian(), decoder(lambda net: net.lm_head, lambda net: net.model.decoder), [(16, 40)]))


def cached_decoder(module, run_stack, head, lengths, source=40, width=WIDTH, heads=HEADS):
    """One step of a decoder whose own keys and values, and those of the encoder, come from a cache."""
    def run(net, ids, mask, *past):
        own, cross = DynamicCache(), DynamicCache()
        for layer in range(LAYERS):
            own.update(past[4 * layer], past[4 * layer + 1], layer)
            cross.update(past[4 * layer + 2], past[4 * layer + 3], layer)
        cache = EncoderDecoderCache(own, cross)
        states = run_stack(net, ids, mask, cache)
        return (head(net)(states), *(part for layer in cache.self_attention_cache.layers for part in (layer.keys, layer.values)))

    def case(past):
        one = lambda length: torch.randn(1, heads, length, width // heads)
        return tokens(1, 1), ones(1, source), *(one(n) for _ in range(LAYERS) for n in (past, past, source, source))

    past, present = cache_names("past", ("key", "value", "encoder_key", "encoder_value")), cache_names("present")
    dims = {name: {2: "source" if "encoder" in name else "past"} for name in past} | {name: {2: "total"} for name in present}
    dims |= axes(encoder_attention_mask="- source")
    return Spec(Call(module, run).eval(), case(5), ("decoder_input_ids", "encoder_attention_mask", *past), ("logits", *present), dims,
                [case(n) for n in lengths])


@network("marian_decoder_cache", "language")
def marian_decoder_cache():
    def stack(net, ids, mask, cache):
        return net.model.decoder(input_ids=ids, encoder_hidden_states=torch.zeros(1, mask.shape[1], WIDTH), encoder_attention_mask=mask,
                                 past_key_values=cache, use_cache=True).last_hidden_state
    return cached_decoder(marian(), stack, lambda net: net.lm_head, [1, 20, 100])


@network("t5_decoder_cache", "language")
def t5_decoder_cache():
    def stack(net, ids, mask, cache):
        return net.decoder(input_ids=ids, encoder_hidden_states=torch.zeros(1, mask.shape[1], WIDTH), encoder_attention_mask=mask,
                           past_key_values=cache, use_cache=True).last_hidden_state
    return cached_decoder(t5(), stack, lambda net: net.lm_head, [1, 20, 100])


@network("clip", "language")
def clip():
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 1024}
    config = transformers.CLIPConfig(text_config={**sizes, "vocab_size": VOCABULARY, "eos_token_id": 4999},
                                     vision_config={**sizes, "image_size": 224, "patch_size": 32}, **EAGER)

    def run(net, ids, mask, image):
        found = net(input_ids=ids, attention_mask=mask, pixel_values=image)
        return found.logits_per_image, found.text_embeds, found.image_embeds
    def case(texts, length):
        return tokens(texts, length, VOCABULARY - 1), ones(texts, length), torch.randn(1, 3, 224, 224)
    return Spec(Call(settle(transformers.CLIPModel(config)), run).eval(), case(3, 12), ("input_ids", "attention_mask", "image"),
                ("logits", "texts", "images"), axes(input_ids="text sequence", attention_mask="text sequence", logits="- text", texts="text -"), [case(2, 16)])


class Greedy(nn.Module):
    """Greedy decoding in the network: a loop with a stopping condition around a gated cell."""

    def __init__(self):
        super().__init__()
        self.words, self.cell, self.gate, self.head = nn.Embedding(500, 128), nn.Linear(256, 128), nn.Linear(256, 128), nn.Linear(128, 500)

    def forward(self, state, most: int):
        word = torch.zeros([state.size(0)], dtype=torch.long)
        text = torch.zeros([state.size(0), 0], dtype=torch.long)
        step = 0
        more = True
        while more and step < most:
            both = torch.cat([self.words(word), state], 1)
            share = torch.sigmoid(self.gate(both))
            state = share * state + (1 - share) * torch.tanh(self.cell(both))
            word = torch.argmax(self.head(state), 1)
            text = torch.cat([text, word.unsqueeze(1)], 1)
            step += 1
            more = bool((word != 3).all())
        return text


@network("greedy_loop", "language")
def greedy_loop():
    def write(path):
        torch.onnx.export(torch.jit.script(Greedy().eval()), (torch.randn(2, 128), torch.tensor(12)), path, dynamo=False, opset_version=17,
                          input_names=["state", "most"], output_names=["text"])
    return Spec(args=(torch.randn(2, 128), torch.tensor(12)), inputs=("state", "most"), write=write)
