# The method "harpoon" of mice. Tables go to Python as plain lists: column by column, with missing cells as NA flags, so
# that no dataframe library has to agree with the version of reticulate.

cache <- new.env(parent = emptyenv())

bridge <- function() {
  if (is.null(cache$bridge)) {
    folder <- system.file("python", package = "harpoon", mustWork = TRUE)
    cache$bridge <- tryCatch(
      reticulate::import_from_path("harpoon_mice", path = folder),
      error = function(e) {
        stop("harpoon needs Python with the package tabharpoon. It is not released yet: run pip install -c constraints.txt . ",
          "in a clone of the repository of Harpoon, and say where Python is: Sys.setenv(RETICULATE_PYTHON = ",
          "\"/path/to/python\"). The error was: ", conditionMessage(e), call. = FALSE)
      }
    )
  }
  cache$bridge
}

kind_of <- function(x, name) {
  if (is.character(x) && anyNA(x)) {
    stop("Column '", name, "' has the class character and missing values. mice cannot impute texts; make it a factor first, ",
      "by factor().", call. = FALSE)
  }
  if (is.factor(x) || is.character(x)) return("category")
  if (is.logical(x)) return("boolean")
  if (is.numeric(x) && is.null(oldClass(x))) return(if (is.integer(x)) "integer" else "number")
  stop("Column '", name, "' has the class ", paste(class(x), collapse = "/"), ". harpoon takes numeric, integer, factor ",
    "and logical columns, and complete character columns. Convert it, for example by as.numeric().", call. = FALSE)
}

as_columns <- function(data) {
  if (!is.data.frame(data) || nrow(data) == 0) {
    stop("harpoon needs a data frame with rows, got ", paste(class(data), collapse = "/"), ".", call. = FALSE)
  }
  lapply(stats::setNames(nm = names(data)), function(name) {
    x <- data[[name]]
    kind <- kind_of(x, name)
    missing <- is.na(x)
    if (kind == "category") x <- enc2utf8(as.character(x))
    if (kind == "number" && any(is.infinite(x))) {
      stop("Column '", name, "' has infinite values. Replace them by NA or by numbers.", call. = FALSE)
    }
    x[missing] <- switch(kind, category = "", boolean = FALSE, integer = 0L, 0)
    list(kind = kind, values = as.list(x), missing = as.list(missing))
  })
}

# The seed of draws comes from R's generator, so that set.seed() decides. That of a training is fixed: a model of the same table is
# trained once, and draws must not depend on whether that was before.
new_seed <- function() sample.int(.Machine$integer.max, 1L)

harpoon_fit <- function(data, max_time = NULL, max_epochs = NULL, options = list(), seed = 1L) {
  options <- c(options, list(max_time = max_time, max_epochs = max_epochs))
  options <- options[!vapply(options, is.null, logical(1))]
  columns <- as_columns(data)  # refused before Python starts, if at all
  bridge()$fit(columns, options, as.integer(seed))
}

mice.impute.harpoon <- function(data, formula = NULL, type = NULL, format = "imputes", model = NULL, max_time = 20,
                                max_epochs = NULL, options = list(), ...) {
  incomplete <- names(data)[vapply(data, anyNA, logical(1))]
  # One block of all columns predicts all of them from each other, for which mice has no predictors to name.
  if (!is.null(model) || (is.null(formula) && all(type == 0))) {
    used <- names(data)
  } else if (!is.null(formula)) {
    used <- union(incomplete, intersect(all.vars(formula), names(data)))
  } else {
    used <- union(incomplete, names(type)[type != 0])
  }
  data <- data[, used, drop = FALSE]
  if (is.null(model)) {
    # All incomplete columns in one block give the same table in every iteration: it is learnt once.
    key <- list(data, max_time, max_epochs, options)
    if (!identical(cache$key, key)) {
      cache$model <- harpoon_fit(data, max_time, max_epochs, options)
      cache$key <- key
    }
    model <- cache$model
  }
  drawn <- bridge()$draw(model, as_columns(data), as.list(incomplete), as.integer(new_seed()))
  complete <- data
  for (name in incomplete) {
    new <- unlist(drawn[[name]], use.names = FALSE)
    if (is.integer(data[[name]])) new <- as.integer(round(new))
    complete[[name]][is.na(data[[name]])] <- new
  }
  if (format == "complete") return(complete)
  lapply(stats::setNames(nm = incomplete), function(name) complete[[name]][is.na(data[[name]])])
}
