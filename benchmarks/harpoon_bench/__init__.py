"""The experiments of the Harpoon paper: data sets, baselines, runs, records and the pages made from them."""
