"""Forward and backward passes of the network that are faster than autograd's."""
