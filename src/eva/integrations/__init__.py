"""EVA for agents of other packages."""
