"""The contract between devices and recommender: public documents, the signed log, HTTP bodies, regions and limits.

Pure data and rules, without sockets, clocks or entropy; device/ and recommender/ carry them.
"""
