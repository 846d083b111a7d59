"""Public data sets as regions: one format, converters, filters, the mixture, decontamination."""
