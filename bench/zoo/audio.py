"""Networks for speech: recognition, encoders of waves, decoders with a cache, recurrent taggers, synthesis."""
import torch
import transformers
from torch import nn

from language import EAGER, LAYERS, cached_decoder
from spec import Call, Spec, axes, network, settle, tokens

WAVE = {"vocab_size": 32, "hidden_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 1024, "conv_dim": (128,) * 7,
        "num_conv_pos_embeddings": 64, **EAGER}


def wave_encoder(name, make, samples):
    @network(name, "audio")
    def build():
        return Spec(Call(settle(make()), lambda net, wave: net(wave).logits).eval(), (torch.randn(1, 16000),), ("wave",), ("logits",),
                    axes(wave="- samples", logits="- frames -"), [(torch.randn(1, n),) for n in samples])


wave_encoder("wav2vec2", lambda: transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**WAVE)), (16000, 22000))
wave_encoder("hubert", lambda: transformers.HubertForCTC(transformers.HubertConfig(**WAVE)), (16000,))
wave_encoder("conformer", lambda: transformers.Wav2Vec2ConformerForCTC(transformers.Wav2Vec2ConformerConfig(
    position_embeddings_type="relative", **{k: v for k, v in WAVE.items() if k != "attn_implementation"})), (16000,))


def whisper():
    """The shape of Whisper tiny."""
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=51865, d_model=384, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536, **EAGER)).eval()


@network("whisper_encoder", "audio")
def whisper_encoder():
    return Spec(Call(whisper().model.encoder, lambda net, x: net(x).last_hidden_state).eval(), (torch.randn(1, 80, 3000),), ("features",), ("hidden",))


@network("whisper_decoder", "audio")
def whisper_decoder():
    def run(net, ids, states):
        return net.proj_out(net.model.decoder(input_ids=ids, attention_mask=torch.ones_like(ids), encoder_hidden_states=states, use_cache=False).last_hidden_state)
    return Spec(Call(whisper(), run).eval(), (tokens(1, 5), torch.randn(1, 1500, 384)), ("decoder_input_ids", "encoder_hidden_states"), ("logits",),
                axes(decoder_input_ids="- target", logits="- target -"), [(tokens(1, 8), torch.randn(1, 1500, 384))])


@network("whisper_decoder_cache", "audio")
def whisper_decoder_cache():
    def stack(net, ids, mask, cache):
        return net.model.decoder(input_ids=ids, encoder_hidden_states=torch.zeros(1, mask.shape[1], 384), past_key_values=cache, use_cache=True).last_hidden_state
    return cached_decoder(whisper(), stack, lambda net: net.proj_out, [4, 64], 1500, 384, 6)


class Tagger(nn.Module):
    """Two bidirectional recurrent layers over texts of different lengths, with packed sequences."""

    def __init__(self, kind):
        super().__init__()
        self.words, self.head = nn.Embedding(1000, 64), nn.Linear(192, 12)
        self.layers = getattr(nn, kind)(64, 96, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=True)
        return self.head(nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)[0])


def tagger(kind):
    return Spec(Tagger(kind).eval(), (tokens(4, 40, 1000), torch.tensor([40, 31, 22, 7])), ("tokens", "lengths"), ("tags",),
                axes(tokens="batch time", lengths="batch", tags="batch time -"), exporters=("torchscript",))


network("lstm_tagger", "audio")(lambda: tagger("LSTM"))
network("gru_tagger", "audio")(lambda: tagger("GRU"))


@network("lstm", "audio")
def lstm():
    inner = nn.ModuleDict({"layers": nn.LSTM(80, 256, 2, batch_first=True), "head": nn.Linear(256, 64)})

    def run(net, features, h, c):
        y, (h, c) = net["layers"](features, (h, c))
        return net["head"](y), h, c
    return Spec(Call(inner, run).eval(), (torch.randn(1, 50, 80), torch.zeros(2, 1, 256), torch.zeros(2, 1, 256)), ("features", "h", "c"), ("y", "h1", "c1"))


@network("hifigan", "audio")
def hifigan():
    config = transformers.SpeechT5HifiGanConfig(upsample_initial_channel=128)
    return Spec(Call(settle(transformers.SpeechT5HifiGan(config)), lambda net, x: net(x)).eval(), (torch.randn(1, 60, 80),), ("spectrogram",), ("wave",),
                axes(spectrogram="- frames -", wave="- samples"), [(torch.randn(1, n, 80),) for n in (60, 100)])


class SelfAttention(nn.Module):
    """A layer of a transformer. nn.TransformerEncoderLayer cannot be used, because its export has the fixed length of
    the example."""

    def __init__(self, width, heads=2):
        super().__init__()
        self.norms, self.heads = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)]), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.wide(self.norms[1](x))


class Synthesiser(nn.Module):
    """Text to spectrogram as FastSpeech does it: each token's state is repeated as long as the network predicts."""

    def __init__(self, width=192):
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.encoder, self.decoder = (nn.ModuleList([SelfAttention(width), SelfAttention(width)]) for _ in range(2))
        self.duration, self.head = nn.Linear(width, 1), nn.Linear(width, 80)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.encoder:
            x = layer(x)
        count = (self.duration(x).squeeze(-1).sigmoid() * 8).round().to(torch.int64).clamp(min=1)
        end = count.cumsum(1)
        frame = torch.arange(end[0, -1])
        token = (frame.unsqueeze(1) >= end[0].unsqueeze(0)).sum(1)
        x = x[:, token]
        for layer in self.decoder:
            x = layer(x)
        return self.head(x), count


@network("synthesiser", "audio")
def synthesiser():
    return Spec(Synthesiser().eval(), (tokens(1, 20, 100),), ("tokens",), ("spectrogram", "durations"),
                axes(tokens="- length", spectrogram="- frames -", durations="- length"), [(tokens(1, 20, 100),), (tokens(1, 20, 100),)], exporters=("torchscript",))
