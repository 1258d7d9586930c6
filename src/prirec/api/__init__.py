"""The front door of simulation: cities, fits, comparisons, privacy plans. `import prirec` gives what is public of it.

    city = prirec.read_folder("city")
    fit = prirec.fit(city, prirec.settings("private", iterations=20))
    fit.quality
    fit.recommend("u0007", near=(35.68, 139.76), k=10)
    fit.save("run")

One program holds everyone's data here. `prirec.Device` and `prirec.Recommender` are the deployment in which data stay
on devices. What these files need is imported where it is used, so that a privacy plan does not wait for the compiler of
the training loops.
"""
