"""Latent siblings of MinAtar's games: a VQ-VAE, its training, its files and its frozen encoder."""
