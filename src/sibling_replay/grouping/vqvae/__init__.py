"""Latent siblings of MinAtar's games: a VQ-VAE, its training, its files and its frozen encoder."""

from sibling_replay.grouping.vqvae.files import VQVAE

__all__ = ["VQVAE"]
