"""Documents in every format that kriss reads or writes, with or without marked mentions."""
