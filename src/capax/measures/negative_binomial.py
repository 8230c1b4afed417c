def fit_negative_binomial(a, b):
    raise NotImplementedError
