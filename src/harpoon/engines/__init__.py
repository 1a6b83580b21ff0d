"""The same model on tables of any length: on this machine (`local`), on Ray (`ray`) and on Spark (`spark`).

Every engine cuts the work into the same blocks of numbered rows, and fills or draws a block with the same few lines; so
all of them give the same rows, with any number of workers. They add no scheduler: Ray and Spark do that.
"""
