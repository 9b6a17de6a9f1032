"""Finds speech in a recording with silero-vad, which gives the probability of speech for each 32 ms.

The wheel silero_vad has the network in several forms, and this script runs those that take the state of the LSTM as an
input:

- silero_vad_16k_sequence.onnx (the default): many pieces of 32 ms in one run;
- silero_vad_openvino_16k.onnx: one piece in each run, as a microphone delivers them;
- silero_vad.onnx: the same with an If for the sampling rate and more Ifs inside. Kilter picks the branches that run
  when it compiles, from the value of the input `sr` and from shapes, once for each rate. (An If whose condition depends
  on what the network computes, or a Loop, would run as a program; silero_vad has neither.)
"""
from __future__ import annotations

import time
import wave

import numpy as np

import kilter
from helpers import model_file, run_main

RATE, PIECE, BEFORE = 16000, 512, 64  # samples a second, in a piece, and before a piece


def synthetic_recording(rng: np.random.Generator) -> np.ndarray:
    """Returns 6 s of f32 samples: noise, and from 2 s to 4 s a buzz with the resonances of vowels, in syllables."""
    seconds = np.arange(2 * RATE) / RATE
    pitch = 120 + 15 * np.sin(2 * np.pi * 1.5 * seconds)
    buzz = (np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0) > 0).astype(float)
    voice = np.zeros_like(buzz)
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410)]
    for start, resonances in zip(range(0, len(buzz), RATE // 5), vowels * 4):
        syllable = slice(start, start + RATE // 5)
        voice[syllable] = resonant(buzz[syllable], resonances) * np.hanning(RATE // 5)
    recording = rng.normal(0, 0.002, 6 * RATE)
    recording[2 * RATE:4 * RATE] += 0.5 * voice / np.abs(voice).max()
    return recording.astype(np.float32)


def resonant(signal: np.ndarray, frequencies: tuple[float, ...]) -> np.ndarray:
    """Returns the signal filtered by one resonance after another, each 80 Hz wide."""
    spectrum = np.fft.rfft(signal)
    turn = np.exp(-2j * np.pi * np.fft.rfftfreq(len(signal)))
    for frequency in frequencies:
        radius = np.exp(-np.pi * 80 / RATE)
        spectrum /= 1 - 2 * radius * np.cos(2 * np.pi * frequency / RATE) * turn + (radius * turn) ** 2
    return np.fft.irfft(spectrum, len(signal))


def recording_of(path: str) -> np.ndarray:
    """Returns the samples of a WAV file of 16 kHz, 16 bits and one channel as f32 from -1 to 1."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 2, 1):
            raise SystemExit(f"{path}: expected 16000 Hz, 16 bits and 1 channel, got {file.getframerate()} Hz, "
                             f"{8 * file.getsampwidth()} bits and {file.getnchannels()} channels")
        return np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)


def pieces_of(recording: np.ndarray) -> np.ndarray:
    """Returns f32[pieces, 64 + 512]: each piece of the recording, preceded by the last 64 samples of the previous
    one."""
    count = -(-len(recording) // PIECE)
    padded = np.zeros(BEFORE + count * PIECE, np.float32)
    padded[BEFORE:BEFORE + len(recording)] = recording
    return np.lib.stride_tricks.sliding_window_view(padded, BEFORE + PIECE)[::PIECE].copy()


def probabilities(net: kilter.Network, pieces: np.ndarray) -> np.ndarray:
    """Returns the probability of speech for each piece, from either kind of network."""
    names = [port.name for port in net.inputs]
    if "h" in names:
        state = np.zeros((1, 1, 128), np.float32)
        return net(input=pieces, h=state, c=state)[0]
    more = {"sr": np.array(RATE)} if "sr" in names else {}
    state, chances = np.zeros((2, 1, 128), np.float32), []
    for piece in pieces:
        chance, state = net(input=piece[None], state=state, **more)
        chances.append(chance[0, 0])
    return np.array(chances)


def spoken(chances: np.ndarray, threshold: float, silence: float) -> list[tuple[float, float]]:
    """Returns the start and end of each stretch of speech in seconds. Gaps that are shorter than `silence` are
    bridged."""
    seconds = PIECE / RATE
    stretches: list[tuple[float, float]] = []
    for place in np.flatnonzero(chances >= threshold):
        begin, end = place * seconds, (place + 1) * seconds
        if stretches and begin - stretches[-1][1] < silence:
            begin = stretches.pop()[0]
        stretches.append((begin, end))
    return stretches


def main(recording: str = "", model: str = "", threads: int = 1, threshold: float = 0.5, silence: float = 0.3) -> None:
    # The recording, and the network. One thread is enough: the layers are small.
    samples = recording_of(recording) if recording else synthetic_recording(np.random.default_rng(0))
    net = kilter.compile(model or model_file("silero_vad/data/silero_vad_16k_sequence.onnx"), threads=threads)
    pieces = pieces_of(samples)

    # Where is speech?
    chances = probabilities(net, pieces)
    print(f"{len(samples) / RATE:.2f} s in {len(pieces)} pieces; probability of speech {chances.min():.3f} to "
          f"{chances.max():.3f}")
    for begin, end in spoken(chances, threshold, silence):
        print(f"  speech from {begin:.2f} to {end:.2f} s")

    # How much faster than real time? The network is compiled by now.
    start = time.perf_counter()
    probabilities(net, pieces)
    taken = time.perf_counter() - start
    print(f"{1000 * taken:.1f} ms, {len(samples) / RATE / taken:.0f} times as fast as real time")


if __name__ == "__main__":
    run_main(main)
