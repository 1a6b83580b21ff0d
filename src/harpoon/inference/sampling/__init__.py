"""Missing cells of rows: sampled variable by variable or by reverse diffusion, and how likely their values are."""
