"""What devices and a recommender agree on before they speak: public documents, the signed log, requests and limits.

No socket, clock or entropy here; device/ and recommender/ carry it.
"""
