"""What the product answers to vectors of the shared model, own models and recommendations."""

from typing import Any, cast

import numpy as np

from prirec import config
from prirec.device.person import Person
from prirec.device.recommend import Published, own_model, recommend
from prirec.features.columns import PlaceColumns, columns_of_places, moment_rows, person_rows
from prirec.features.encoding import from_json
from prirec.model.shared_model import SharedModel, coefficients, fill_rows
from prirec.protocols.codec import encode
from prirec.protocols.prediction import Moment
from prirec.util.jit import in_numpy
from prirec.wire.campaign import Basis
from prirec.wire.documents import Edition, Model, Offer, Scales, address, octets
from vectors.operations_features import Told, known_places, reals


def published(i: dict[str, Any]) -> tuple[Basis, SharedModel]:
    """From documents, as a device reads them."""
    said, text = i["scales"], i["encoding"].encode()
    words = (octets(reals(said[name]), np.float64) for name in ("word_factor", "word_centre"))
    private = [
        octets(reals(said[f"{of}_{what}"]), np.float64) for of in ("person", "moment") for what in ("mean", "sd")
    ]
    edition = Edition(bytes(32), text, bytes(32), 0.0, 1.0)
    scales = Scales(bytes(32), *private, float(said["positive"]), float(said["root_records"]), *words)
    rules = i.get("rules", {"ratio": "1", "negatives": "uniform", "only_earlier": "0"})
    settings = config.load(
        changes={
            "data.ratio": int(rules["ratio"]),
            "data.negatives": rules["negatives"],
            "data.split": "time" if rules["only_earlier"] == "1" else "record",
        }
    )
    basis = Basis(Offer(1, bytes(16), text, bytes(32), 14), settings, edition, scales)
    B = basis.shared(Model(address(encode(scales)), 1, bytes.fromhex(i["shared"])))
    return basis, basis.model(B)


def rows(i: dict[str, Any]) -> dict[str, Any]:
    basis, model = published(i)
    moments, _ = basis.scaling
    a = person_rows(np.array([i["person"]], dtype=np.float32), moments)[0]
    place: PlaceColumns = columns_of_places(np.array([i["place"]], dtype=np.float32), basis.columns)
    context = moment_rows(np.array([i["context"]], dtype=np.float32), basis.columns, moments)
    b, own = np.empty((1, model.layout.width)), np.empty(model.layout.width)
    with in_numpy():
        fill_rows(np.zeros(1, dtype=np.int32), context, place, model, b)
        coefficients(a, model, np.empty(len(model.layout.crossed)), own)
    return {"a": a, "b": b[0], "coefficients": own}


def public_half(i: dict[str, Any]) -> Published:
    basis, model = published(i)
    names = tuple(block.column for block in from_json(i["encoding"].encode()).popularity)
    return Published.of(basis, known_places(i["known"], popularity=names), basis.scaling[0], model)


def own(i: dict[str, Any]) -> np.ndarray:
    with in_numpy():
        return own_model(cast(Person, Told(i)), public_half(i))


def recommended(i: dict[str, Any]) -> list[Any]:
    here = None if i["here"] is None else tuple(map(float, i["here"]))
    moment = Moment(cast(Any, here), None if i["time"] is None else int(i["time"]))
    found = recommend(
        cast(Person, Told(i)), public_half(i), moment=moment, k=int(i["many"]), radius_km=float(i["radius"])
    )
    return [
        [one.place, one.distance_km, one.probability, [[why.name, why.pull, why.words] for why in one.reasons]]
        for one in found
    ]


OPERATIONS = {"rows": rows, "own_model": own, "recommend": recommended}
