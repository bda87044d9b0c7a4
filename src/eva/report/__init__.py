"""One page and one figure from the files of run directories; needs neither torch nor gymnasium."""
