"""The catalogue of messages: what tests expect an error, or a note beside a result, to say, by the package it is from.

`pytest.raises(UsageError, match=messages.ONE_NEIGHBOUR)`, `says(found.stderr, messages.ONE_NEIGHBOUR)` for a command:
the type or the exit code says whose fault it is, the entry says what is wrong. An entry is a regular expression, as
short as identifies its message; values that a test knows are arguments.
tests/docs/test_messages.py holds every entry against the texts in the sources, so whoever rewords a message changes
one line here. What an argument with a default adds is looked for in the message alone.
"""

import re


def joined(*parts: str) -> str:
    """Entries for parts of one message, in this order, with anything between them."""
    return ".*".join(parts)


def beginning(*parts: str) -> str:
    """The first words of a message."""
    return "^" + joined(*parts)


def any_of(*entries: str) -> str:
    """Where a test leaves open which of several errors it is."""
    return "|".join(entries)


def _exactly(value: object) -> str:
    return re.escape(str(value))


# errors.py: what a peer did, and where in a file the problem is

DECODE = "^DECODE"
ORDER = "^ORDER"
AUTH = "^AUTH"
PARAMS_MISMATCH = "^PARAMS_MISMATCH"
EQUIVOCATION = "^EQUIVOCATION"
PROOF = "^PROOF"
ABORTED = "^ABORTED"


def in_column(column: str, problem: str = "", *, file: str = "", line: int | None = None) -> str:
    """A problem, another entry of this catalogue, with one column of a table."""
    place = [_exactly(file)] * bool(file) + [f"line {line}"] * (line is not None) + [f"column '{_exactly(column)}'"]
    return ", ".join(place) + f": {problem}" * bool(problem)


def in_line(line: int, problem: str = "") -> str:
    """A problem, another entry of this catalogue, with one line of a file."""
    return f"line {line}" + f": {problem}" * bool(problem)


# api.py and prirec/__init__.py

VISITS_MISSING = "a city needs visits"
ROWS_NOT_MAPPINGS = "list of rows that are"
TABLE_WITHOUT_ROWS = "has no rows; leave it out"
COLUMNS_OF_DIFFERENT_LENGTHS = "its columns must be equally long"
NOT_A_CITY = "a city is a prirec.City"
NOT_SETTINGS = r"settings come from prirec.settings\("
MODELS_NOT_A_LIST = "name the models to compare"
NEAR_NOT_A_PAIR = "near is a pair of degrees"
AT_NOT_A_DATE = "at takes a date and a local time"
AT_NOT_A_TIME = "at is a datetime"
RADIUS_NEGATIVE = "radius_km is a number that is not negative"
RUN_WITHOUT_ITS_CITY = "load it together with its city"
PLAN_WITHOUT_NUMBERS = "a plan needs a city, or the numbers"
VISITS_OUT_OF_RANGE = "visits_per_person is a number from 1"
YEARS_OUT_OF_RANGE = "years is a number above 0"
FORECAST_WITHOUT_NUMBERS = "a forecast needs a city"
NOTHING_PROMISED_TO_COMPARE = "training compares a plan with none, and these settings promise nothing"
BELONGS_TO_THE_CLUSTER = "belongs to engine 'cluster'"
THREADS_ON_A_CLUSTER = "threads belong to one machine"
REPORT_OF_PARTS = "a report needs all data on one machine"
ENGINE_OF_A_CENTRALISED_MODEL = "the centralised model has one engine"
CHECKPOINT_IS_A_FOLDER = "the checkpoint .* is a folder; name a file.*earlier version"
NO_RESUME_STARTS_OVER = "; without resume it starts over"


def no_such_attribute(name: str) -> str:
    return f"module 'prirec' has no attribute '{name}'"


def belongs_to_the_cluster(argument: str) -> str:
    return f"^{argument} belongs to engine 'cluster'"


def more_iterations_done(done: int, *, wanted: int) -> str:
    return f"holds {done} iterations, more than the {wanted} asked for"


def not_a_table(name: str) -> str:
    return f"the table '{name}' is a Polars or pandas frame"


def not_a_column(column: str, *, table: str) -> str:
    return f"the column '{column}' of '{table}' must be a list"


def not_a_count(name: str) -> str:
    return f"^{name} is a whole number of at least 1"


def two_models_called(name: str) -> str:
    return f"two models are called '{name}'"


def no_fit_of(name: str) -> str:
    return f"there is no fit of '{name}' in this comparison"


# cli

SET_WITHOUT_A_VALUE = "write --set KEY=VALUE"
SETTING_GIVEN_TWICE = "the setting '.*' is given twice"
NOT_AN_EARLIER_DEMO = "exists and is not an earlier demo"
FOLDER_YOU_ARE_IN = "is the folder you are in, or holds it"
FORGET_WITHOUT_YES = "this erases visits, profile, model and identity for good; add --yes"
OUT_WITHOUT_A_NAME = "^--out takes the name of a folder to make"
STOPPED_BEFORE_A_CHECKPOINT = "stopped before the first checkpoint; nothing was saved yet$"
STOPPED_AFTER_A_CHECKPOINT = "stopped; .* is saved in .*; run the same command again to go on"
OUTPUT_NOT_WRITTEN = "^the output could not be written whole: "
FOLDER_OR_SIZE_OF_A_CITY = "give a data folder, or --people with --places and --visits-per-person, and not both"
NEITHER_FOLDER_NOR_COUNTS = "name a data folder, or give --people and --places"
NOT_CHECKED = "not checked: this device has no catalogue yet"
LEFT_OUT_UNKNOWN = "left out: they are at places that this device does not have"
FLAG_FOR_A_FILE = "^a file is to be named before "


def setting_given_twice(name: str) -> str:
    return f"the setting '{_exactly(name)}' is given twice"


def no_such_command(word: str) -> str:
    return f"^there is no command '{word}'; "


def no_such_option(word: str) -> str:
    return f"^there is no option {word}; "


def value_missing(option: str, metavar: str, *, example: str = "") -> str:
    return f"^a value is missing behind {option}: {metavar}" + f", such as {option} {example}" * bool(example)


def not_one_of(choices: str) -> str:
    return f"is not one of {choices}"


def help_says_more(command: str) -> str:
    return f"; `{command} --help` says more$"


def takes_a_point(flag: str) -> str:
    return f"^{flag} takes a latitude and a longitude in degrees"


def made_no_difference(flags: str) -> str:
    return f"{flags} made no difference: there is no list with --no-ranking"


def resuming_after(iteration: object, *, rounds: int, file: str = "") -> str:
    """`iteration` is a number, or a regular expression."""
    return f"resuming after iteration {iteration} of {rounds}, from {_exactly(file)}"


def certificate_of_the_server(when: str) -> str:
    """`when` is a regular expression."""
    return f"the server's certificate {when}: prirec recommender keys rotate"


# cluster, and checkpoints of engines too

CHECKPOINT_OF_ANOTHER_RUN = "the checkpoint .* is of another run"
CHECKPOINT_DAMAGED = "the checkpoint .* is damaged; remove it"
ACTORS_LOST_REPEATEDLY = "actors are lost again and again"
CLUSTER_RUNS_ROUNDS_ONLY = "the cluster runs rounds"
SAMPLES_IN_ORDER = "a sample needs the V that the one before it moved"
RAY_MISSING = r"pip install 'prirec\[cluster\]'"
CLUSTER_ADDRESS_INVALID = "the address is the HOST:PORT of a cluster's head"
NO_EARLY_STOPPING_ON_A_CLUSTER = "early stopping is not carried by the cluster"


def no_cluster_at(address: str) -> str:
    return f"no Ray cluster answers at {_exactly(address)} .*; is its head running"


def node_has_another(program: str, version: str, *, here: str) -> str:
    return f"a node of the cluster has {program} {_exactly(version)}, and this machine {_exactly(here)}"


# config.py

PARTS_OF_ONE_WHOLE = "belong together: give all three, or none"
PART_OF_THE_BUDGET_MISSING = "popularity, moments and interaction each need a part"
ALIKE_WITHOUT_A_COLUMN = "a column of places, need each other"
CAP_WITH_AVERAGES = "popularity.cap counts places alone: leave it out, or features.averages"
AVERAGE_NAMED_TWICE = "features.averages names a column twice"
DROPOUT_IN_THE_PAPERS_SCHEDULE = "the paper's schedule cannot lose a device"
PRIVATE_WITHOUT_EPSILON = "the preset 'private' promises one budget"
EPSILON_OUTSIDE_ROUNDS = "privacy.epsilon_per_user is for rounds"
EARLY_STOPPING_OUTSIDE_THE_BUDGET = "early stopping looks at everyone's records, which no budget covers"
WEIGHTS_OF_ONE_BY_NAME = "to watch it, say ones-diverges"
WEIGHTS_OF_ONE_DIVERGE = "they grow thirtyfold a step"
NUMBER_OVER_64_BITS = "a whole number has at most 64 bits"
SETTING_TO_BE_REMOVED = "; remove the setting"
OWN_VISITS_REPLACED = "features.own_history; set that to true instead"


def unknown_setting(name: str) -> str:
    return f"unknown setting '{_exactly(name)}'; "


def setting_out_of_range(name: str, limit: str = "") -> str:
    """The limit of a setting, with the paper's symbol in brackets where it has one."""
    return rf"^{_exactly(name)}.* must be {limit}"


def takes(name: str, what: str) -> str:
    """A setting or an option with a value of another type."""
    return f"^{_exactly(name)} takes {_exactly(what)}"


OPTION_ABOVE_ITS_LIMIT = "is at most"


def is_at_least(name: str, bound: int) -> str:
    return f"^{_exactly(name)} is at least {_exactly(bound)}"


def is_at_most(name: str, bound: int) -> str:
    return f"^{_exactly(name)} is at most {_exactly(bound)}"


def of_option(name: str) -> str:
    """The beginning of what is wrong with the value of an option or a setting."""
    return f"^{_exactly(name)}: "


def mechanism_needs_a_budget(mechanism: str) -> str:
    return f"popularity.mechanism '{mechanism}' needs a budget"


def mechanism_outside_the_budget(mechanism: str) -> str:
    return f"'{mechanism}' is not within that budget"


def mechanism_not_collected(mechanisms: str) -> str:
    return f"popularity.mechanism: only {mechanisms} is collected"


def floor_too_low(least: int) -> str:
    return f"^floor must be at least {least}: a sum over fewer people can be taken apart"


def no_such_preset(name: str) -> str:
    return f"no preset is called '{name}'; "


def flag_read_by_others_only(flag: str, *, reader: str) -> str:
    return f"{_exactly(flag)} has no meaning here: it is read by {_exactly(reader)} alone"


def makes_no_difference(name: str) -> str:
    return f"{_exactly(name)} makes no difference here"


def setting_of_an_earlier_version(name: str) -> str:
    return f"{_exactly(name)} is a setting of an earlier version"


NOT_TOML = "not a TOML file"


def in_file(file: str, problem: str) -> str:
    return f"^{_exactly(file)}: {problem}"


def settings_file_unreadable(path: object) -> str:
    return f"the settings file {_exactly(path)} cannot be read: "


def no_settings_file(path: object) -> str:
    return f"there is no settings file {_exactly(path)}"


def section_without_brackets(name: str) -> str:
    return rf"'{name}' is a section: write \[{name}\]"


# data

COORDINATES_SWAPPED = "they look swapped here or in"
LATITUDE_OUT_OF_RANGE = "lat and lon look swapped"
FILE_FOR_A_NEW_FOLDER = "is a file; name a new folder"
FOLDER_NOT_EMPTY = "is there and not empty; name a new folder"
TABLE_FOR_DECLARED_COLUMN_MISSING = "and the folder has no such table"
IDS_NOT_TEXT = "ids are text or whole numbers"
ID_UNKNOWN = "this id is not in"
NO_SUCH_COLUMN = "there is no such column[^;]*; "
ID_TWICE = "this id is there twice"
ONE_COORDINATE_MISSING = "fill both cells or none"
PLACES_WITHOUT_COORDINATES = "POIs have no coordinates, more than 1 %"
COLUMN_NAME_RESERVED_FOR_PARTS = "the parts need this name for themselves; rename the column"
PARTITION_DAMAGED = "is damaged; partition the data again"
TABLE_WITHOUT_VISITS = "holds no visits"
FILES_THAT_ARE_NO_VISITS = "holds no visits among its files"
TWO_FILES_FOR_A_TABLE = "could both be .*; call one of them"
ROW_TOO_LONG = "more cells in a row than there are columns"
NO_TABLE_OF_PLACES = "holds no pois.csv"
NO_RECORDS = "the data set has no records"
TRAINING_SET_EMPTY = "the training set is empty"
TEST_SET_EMPTY = "the test set is empty"
NO_CLICK = "and there is no click"
THIN_WITHOUT_IGNORED_PLACES = "for visits alone set ratio instead"
SPLIT_BY_TIME_WITHOUT_TIMES = "a split by time needs a time for each record; split by record"
SPLIT_BY_MOMENT_WITHOUT_TIMES = "a split by moment needs a time for each record"
POOL_OF_NOTHING = "pool must be at least 1"
NEARBY_NEGATIVES_WITHOUT_COORDINATES = "choose uniform negatives instead"
TWO_CITIES_IN_ONE_FOLDER = "are both there; keep one city in the folder"
PUBLISHED_FILE_MISSING = " is not there$"
PUBLISHED_ROW_UNEXPECTED = "is not as published"
NO_VISIT_LEFT = "no visit is left"
WORD_WITH_LINE_BREAK = "or a line break in it"
WORD_BLANK = "has a blank word"
WORD_WITH_SPACES_AROUND = "has a word with spaces around it"
NUMBER_INFINITE = "has an infinite number"
DEGREES_OR_METRES = ".*, or metres on some map"
WHAT_A_COLUMN_IS = "say in schema.toml what it is"
COORDINATES_OF_VISITS = "coordinates of a place belong in pois"
DECLARED_WORD_WITH_SPACES = "a word in values has spaces around it"
SCHEMA_IS_THERE = "is there already; change it by hand"
STRICT_AND_SKIP_BAD = "strict refuses what skip_bad leaves out"
NO_SUCH_FOLDER = "there is no such folder; "
LINK_TO_NOTHING = "is a link to nothing"
FOLDER_FOR_A_FILE = "is a folder, and a file is needed"
FILE_FOR_A_FOLDER = "is a file, and a folder is needed"
NOT_A_REGULAR_FILE = "it is no regular file"
UNREADABLE = "cannot be read: "


NOT_PARQUET = "cannot be read as Parquet"
LARGER_THAN_ANYBODY_WRITES = "it is larger than "
COLUMN_NAME_TAKEN = "cannot be called"
IDS_NOT_DISTINCT = "must be distinct and not blank"
TOO_MANY_PLACES_WITHOUT_COORDINATES = "over 1 % of the POIs have no coordinates"
ONE_COORDINATE = "latitude and longitude come together"
OUTSIDE_DEGREES = "lies outside ±90 degrees of latitude"
NO_VISITS_TO_WRITE = "there are no visits to write"
LABELS_WOULD_BE_LOST = "labels of -1 would be lost; set labelled"
DECLARED_COLUMN_MISSING = "is declared, and there is no such column"
DECLARATION_INCOMPLETE = "needs either words, or both low and high"
TABLE_EMPTY = "is empty; its first line names the columns"
TABLE_OF_NO_ROWS = "holds no rows; leave the file out"
ID_EMPTY = "the id is empty"
NO_SUCH_FOLDER = "there is no such folder"


def coordinates_swapped(table: str) -> str:
    return f"they look swapped here or in {_exactly(table)}:"


def recipe_invalid(name: str) -> str:
    return f"^{name} must (be one of: |be a whole number from 1 up|lie strictly between 0 and 1)"


def columns_not_named(table: str, role: str) -> str:
    return rf'; name them so, or in schema.toml by kind = "{role}" below \[{table}.COLUMN\]'


def did_you_mean(word: str) -> str:
    return f"did you mean '{word}'"


def known_are(words: str) -> str:
    return f"known are {words}"


def no_such_table(name: str) -> str:
    return f"there is no table '{name}'"


def published_folder_needs(file: str) -> str:
    return f"needs a folder with {_exactly(file)}"


def filter_leaves_nothing(keep: str, *, at_least: int) -> str:
    return f"no record is left after the filter '{keep}' with at_least = {at_least}; lower data.at_least, or"


def days_at_most(most: int) -> str:
    return f"days must be at most {most:,}"


def size_of_a_city(low: float, high: float) -> str:
    return f"must lie between {low:g} and {high:g}"


# device

NO_DEVICE_FILE = "there is no file .*; name the file in which a device keeps"
DEVICE_FILE_MISSING = "there is no file .*; prirec device init makes one"
DEVICE_FILE_IS_A_FOLDER = "is not a file; name the file in which a device keeps"
DEVICE_FILE_EMPTY = "is empty: no device has written to it, or what it held is lost"
DEVICE_FILE_WITHOUT_A_LEDGER = "which had no ledger yet"
DEVICE_FILE_LEFT_IN_A_WRITE = "was left in the middle of a write"
ANOTHER_KEY_THAN_THE_FINGERPRINT = "has another key than the fingerprint says"
BUDGET_DOES_NOT_COVER_A_ROUND = "privacy budget does not cover another round for"
NO_COLUMN_OF_PLACES = "no column holds places; call one of them poi"
NO_KNOWN_COLUMN = "the first line does not name the columns; it must name"
NAME_OF_A_COLUMN_TWICE = "this column is there twice"
COLUMN_WITHOUT_A_NAME = "column .* has no name"
COLUMNS_BY_SEMICOLONS = "the columns are separated by .*: use commas"
LONG_LINE = "has a line of over .* MB; is it a table"
NOT_UTF_8 = "is not UTF-8; save it as UTF-8"
COLUMN_NOT_PLAIN = "leave the column out, or rename it"
NO_REGULAR_FILE = "is a folder, or no regular file; name a file"
DEVICE_FILE_NOT_A_FILE = "is not a file; name the file of a device"
AUTHORITY_FILE_MISSING = "with an authority's certificate"
NO_CERTIFICATE = r"the authority is not a certificate \(PEM\)"
NO_CERTIFICATE_FILE = r"is not an authority's certificate \(PEM\)"
COLUMN_OUT_OF_PLACE = "does not belong here: these are one person's visits"
CELLS_UNEVEN = "has not as many cells as the first line"
NOT_A_TIME = "a time is a local date and time"
NOT_A_LABEL = r"a label is 1 \(visited\) or 0"
NOT_FINITE = "a number must be finite"
NOT_CSV = "is not CSV in UTF-8"
CERTIFICATE_NOT_TRUSTED = "the recommender's certificate does not hold"
ANOTHER_AGENT_AT_WORK = "another agent is at work"
CODE_NEEDED_TO_ENROL = "if its operator hands out an enrolment code, give it"
NOBODY_TO_JOIN = "there is nobody to join at that address"
IN_NO_DEPLOYMENT = "this device belongs to no deployment yet"
IN_A_DEPLOYMENT_ALREADY = "this device belongs to a deployment already"
IN_NO_DEPLOYMENT_OR_LOG_AHEAD = "this device belongs to no deployment, or knows more of its log than that"
UNUSABLE_START = "^a starting model is here that this device cannot use"
LOG_SET_BACK = "lacks what this device has read in it: it was set back, or forked"
DOCUMENTS_TAKE_UP_MORE = "the recommender's documents take up more than"
LOG_GROWN_BEYOND = "the recommender's log has grown by more than a device reads"
PLACE_UNKNOWN = "that this device does not have; look at the spelling"
NOT_A_FEATURE = "is none of the features that this deployment uses"


def outside_of(low: float, high: float) -> str:
    return f"a number from {low:g} to {high:g} belongs here"


OTHER_AVERAGES = "the catalogue was published with averages of .*, and devices know of these; publish it again"
WORD_NOT_DECLARED = "a word is not among those that the deployment declares"
STORED_DOCUMENT_DAMAGED = "a document in the device's file is damaged"
RESPONSE_TOO_LONG = "the recommender's answer is longer than any answer may be"
NOT_COMPUTED_IN_TIME = "could not be computed, or not in time; it adds zeros"
RELEASE_OF_OTHER_PLACES = "the popularity that this run released has not one value for each place"
RELEASE_WITHOUT_A_PRICE = "is masked without a price"
VISIT_ID_TAKEN = "stands for another visit"
NOTHING_TO_RECOMMEND_FROM = "there is nothing to recommend from"
NOTHING_PUBLISHED = "nothing has been published yet"
DEGREES_OUT_OF_RANGE = "give degrees from -.* to .*, latitude first, then longitude"
SPENT_ROW_DELETED = "spent"
PAID_ROW_CHANGED = "paid"


WORD_BLANK_OR_TOO_LONG = "a word is 1 to .* characters of text, not blank"


def documents_take_up_more_than(megabytes: int) -> str:
    return f"the recommender's documents take up more than the {megabytes} MB that a device stores"


def older_copy_not_removed(file: str) -> str:
    return f"an older copy of {_exactly(file)} could not be removed"


def no_place_on_this_device_within(km: float) -> str:
    return f"this device has no place within {km} km of that point"


def blank_or_too_long(what: str) -> str:
    return f"{what} is 1 to .* characters of text, not blank"


def digits_of_a_fingerprint(least: int) -> str:
    return f"a fingerprint has {least} to 64 hexadecimal digits"


# engines and rounds

ONE_NEIGHBOUR = "with a single neighbour the sum is that neighbour's own model; give at least two"
NO_THREADS = "an engine needs at least one thread"
NO_SHARDS = "there must be at least one shard"
CHECKPOINT_NOT_WRITTEN = r"the checkpoint could not be written \("
CHECKPOINT_OF_ANOTHER_SIZE = "the models in the checkpoint have not the size or kind that these settings and data call"
SAVED_BY_AN_EARLIER_VERSION = "was saved by an earlier version; remove it and train again"
INSTRUCTION_NOT_COMPILED = r"is not used with this Numba \(.*\): it raises "
TOO_FEW_IN_MOMENTS = "people are left in the sum of moments, and a sum is opened over at least"
LOSS_NOT_A_NUMBER = "the loss is no longer a number: give linear.alpha"


def too_few_in_moments(people: int, *, floor: int) -> str:
    return f"^{people} people are left in the sum of moments, and a sum is opened over at least {floor} people"


def no_such_engine(name: str) -> str:
    return f"no engine is called '{name}'; there are local, plain, protocol and cluster"


def checkpoint_past(iteration: int, *, wanted: int) -> str:
    return f"the checkpoint is at iteration {iteration}, past the {wanted} asked for"


def checkpoint_not_written(reason: str) -> str:
    return rf"the checkpoint could not be written \({reason}\); the one before it is untouched"


def checkpoint_damaged(file: str) -> str:
    return f"the checkpoint {_exactly(file)} is damaged"


def version_unknown(found: int, *, newest: int) -> str:
    """Of checkpoints and partitioned folders."""
    return f"has version {found}, this program reads {newest}"


# evaluate

NO_MODEL_TO_REPORT = "a report needs at least one trained model"
REPORT_NOT_WRITTEN = "the report could not be written to"
REPORT_TO_A_FOLDER = "is a folder; name a file for the report"
REPORT_TO_NO_FILE = "is no regular file; name one for the report"
REPORT_TO_NO_FOLDER = "there is no folder .* for the report"
REPORT_WITHOUT_MATPLOTLIB = r"pip install 'prirec\[report\]'"
TEST_VISITS_IN_POPULARITY = "count the training visits alone"
LEARNS_FROM_THE_TEST = "this evaluation would learn from what it is tested on"
LABELS_ANTI_CORRELATED = "labels anti-correlated by the split"


def columns_of_the_test(columns: str) -> str:
    return rf"columns of the table of people \({columns}\) follow from their visits"


# features

ENCODING_DAMAGED = "the saved encoding is damaged"
ENCODING_COLUMN_MISSING = "the column that this run was made with is missing"
NUMBER_EXPECTED = "a number belongs here"
WORD_EXPECTED = "a word or a list of words belongs here"
COLUMN_OF_ANOTHER_KIND = "this run was made with .* in it"
AVERAGE_OF_NO_COLUMN = "and visits have no such column of numbers"
AVERAGE_WITHOUT_A_RANGE = "declare low and high for it in schema.toml"
NO_FEATURE_OF_PLACES = "there is no feature to learn from: give places or schema.toml columns"
FEATURE_OF_A_PLACE_NOT_FINITE = "a feature of a place is not a finite number"


ENCODING_VERSION_UNKNOWN = "the encoding has version .*, this program reads version"


def encoding_version_unknown(found: int, *, newest: int) -> str:
    return f"the encoding has version {found}, this program reads version {newest}"


def too_many_values(most: int) -> str:
    return f"values are declared, at most {most:,} can be"


def no_words_to_be_alike_in(column: str) -> str:
    return f"{column} is none in this city"


# graph

RESOLUTION_OUT_OF_RANGE = "h3 resolutions go from 0"
RADIUS_NOT_A_DISTANCE = "the radius must be a finite number of kilometres, 0 or more"
NEAREST_WITHOUT_COORDINATES = "nearest neighbours need coordinates"
WEIGHTS_WITHOUT_COORDINATES = "weights by distance need coordinates"
WEIGHTS_FOR_NEIGHBOURS_DRAWN_ANEW = "neighbours drawn anew for each interaction have uniform weights only"
NUMBER_OF_NEIGHBOURS_OUT_OF_RANGE = "N, the number of neighbours, must be from 1 to"
AS_MANY_NEIGHBOURS_AS_PEOPLE = "N must stay under the number of people"
DRAWING_WITHOUT_A_GENERATOR = "needs a random generator: give rng"
ONLINE_NOT_BOOLEANS = "online must hold one boolean for each"
WEIGHTS_WITHOUT_A_LOCATION = "weights by distance need a location for everyone"
SCALE_OUT_OF_RANGE = "scale_km, .* must be a finite number above 0"
NO_SUCH_WEIGHTS = "weights by distance are 'exponential', 'gaussian' or 'inverse'"
WEIGHTS_OF_ONE_REFUSED = "Use uniform; to watch it happen"


def number_of_neighbours(most: int, *, people: int) -> str:
    return f"must be from 1 to {most} with {people} people"


def drawn_among_too_few(least: int) -> str:
    return f"closest: give among >= {least}"


def person_is_a_row_up_to(last: int) -> str:
    return f"a person is a row from 0 to {last}"


def resolution_must_be_below(resolution: int) -> str:
    return f"give a lower resolution than {resolution}"


# pages

NOT_AN_ORIGIN = "an origin is https://"
NO_HTTPS_ADDRESS = "the address of a recommender begins with https://"
ONE_KEY_FOR_TWO = "both operators are said to have the same key"
NO_HELPER_FOR_MY_PHONE = "My phone is for deployments over two operators"
PAGE_NOT_BUILT = "is not built: `make setup` builds it"
NO_RECORDING = "is not a recording of a city by this version|does not begin with a city"
NOT_WRITTEN = "could not be written: "
NO_FOLDER_FOR_IT = "there is no folder .*; make it, or name another file"
NAME_A_NEW_FILE = "is there already; name a new file"

# privacy

NO_EPSILON_FOR_THIS_DELTA = "no epsilon will do for this delta: .* a larger delta"
LOCAL_LOSSES_OF_ANOTHER_UNIT = "convert them with times"
SPENDING_OF_DIFFERENT_UNITS = "what is spent per .* do not add up"
PART_FOR_LOCAL_ANSWERS_OUT_OF_RANGE = "the part of an epsilon for local answers is from 0 to all of it"
SPENDING_NEGATIVE = "what was spent has a sum of .* at least 0"
DELTA_OUT_OF_RANGE = "delta must be above 0 and below 1"
BUDGET_EXHAUSTED = "does not cover another release for .*; nothing is sent"
LOSS_OF_ANOTHER_UNIT = "convert it with times"
LOCAL_ANSWERS_NOT_CHARGED = "only noisy sums are paid for"
PERIOD_TOO_SHORT = "a budget's period has at least one day"
CHARGE_NOT_FOR_ONE_RELEASE = "a charge is for one release"
CHARGED_AT_ANOTHER_PRICE = "this release was charged at another price"
OWN_FLOOR_OUT_OF_RANGE = "a floor is a number of devices from 0 up"
LOST_OR_CORRUPT_OUT_OF_RANGE = "lost and corrupt are shares of a roster"
NOISE_OUT_OF_RANGE = (
    "noise has a standard deviation above 0 and below .* beyond that nothing would be learnt: "
    "take fewer rounds, a larger share of the budget or a larger epsilon"
)
ALL_SURVIVORS_COLLUDE = "colluders leave nobody"
CONTRIBUTION_NOT_FINITE = "a contribution has an entry that is not a number or not finite"
PUBLIC_BOUNDS_INVALID = "the public bounds of a value are finite"
OUTSIDE_PUBLIC_BOUNDS = "outside its public bounds"
MORE_VALUES_THAN_REPORTS = "those who have a value at a place are no more than those who report"
SHARE_OF_THE_BUDGET_OUT_OF_RANGE = "in the budget is from 0 to 1"
SHARES_OF_THE_BUDGET_DO_NOT_ADD_UP = "the shares of the budget add up to 1"
PLAN_OF_NOTHING = "has at least one release, of a vector of at least one entry"
KIND_OF_SUM_TWICE = "a plan names each kind of sum once"
BUDGET_TOO_SMALL_FOR_ITS_RELEASES = "so little of the budget for each of its releases that nothing would be learnt"
PARTS_WITHOUT_A_SIZE = "the parts of the budget follow from the size of the model; it is not known here"
NO_BUDGET_PROMISED = "these settings promise nothing: give privacy.epsilon_per_user"
SUMS_OR_FEATURES_UNFIT = "there is one finite sum and one row of finite public features"
EDGES_OF_BINS_INVALID = "bins of scores need at least one edge"
LOSS_CAP_OUT_OF_RANGE = "the cap of a person's mean log loss"
TOO_FEW_FRACTION_BITS = "with so few fraction bits"
SCORES_AND_LABELS_UNEVEN = "there is one score and one label for each record"
LABELS_NOT_SIGNS = r"labels must be \+1 and -1"
HITS_INVALID = "each person has a hit, 1 or 0, or -1 if no new place was held out"
SCORE_NOT_A_NUMBER = "a score is NaN: the model has diverged, and nothing was made of it"
FIGURES_DROWNED = r"the noise drowns it; this part of the budget \(privacy.quality\) takes about"
FIGURES_UNDER_NOISE = "no figure can be read under this noise: it takes more devices"
AUC_OUT_OF_RANGE = "the AUC to be foreseen is above 0.5"
REPORTERS_REVEAL_THE_VISIT = "who reports reveals the action"
CAP_OF_NOTHING = "give a cap from 1 up"
SIGMA_OUT_OF_RANGE = "sigma, the noise in units of a person's norm"
DEVICE_HAD_ANOTHER_BUDGET = "the device had another budget"


EPSILON_TOO_SMALL = "epsilon_per_bit is so small that an answer would say nothing"


def not_positive(name: str) -> str:
    """`name` is a regular expression."""
    return f"^{name} must be a number above 0, and finite"


def budget_exhausted(what: str) -> str:
    return f"does not cover another release for {_exactly(what)}; nothing is sent"


def budget_exhausted_in_any(days: int) -> str:
    return f"in any {days}"


def too_few_devices(devices: int | str, *, floor: int) -> str:
    return (
        f"{devices if isinstance(devices, str) else format(devices, ',')}.*, and the floor for an opened sum is {floor}"
    )


def sum_not_opened(survivors: int) -> str:
    return f"a sum with fewer than {survivors} survivors is not opened"


def survivors_may_collude(survivors: int, colluders: int) -> str:
    return f"of {survivors} survivors {colluders} may collude"


def noisy_sum_could_wrap(summands: int) -> str:
    return rf"n \(B 2\^f \+ 1/2\) \+ noise <= 2\^\(l-1\) - 1 fails for n = {summands},"


def no_budget_for(what: str) -> str:
    return f"the plan has no budget for {what}"


def entries_of_quality_figures(entries: int) -> str:
    return f"bins has {entries} entries"


# protocols

WRONG_CONTENT_IN_A_BOX = "a box holds something else than its step calls for"
MESSAGE_TOO_LONG = "bytes is over the limit of"
MESSAGE_NOT_CANONICAL = "these bytes are not the canonical form of a message"
NOT_ONE_MESSAGE = "these bytes are not exactly one message of this version"
MEMBERSHIP_SIZES = "a deployment has 16 bytes, keys have 32"
OTHER_VERSION = "a message of another version of the protocols than .*, which this program speaks; update the older"
ROUND_ENTERED_TWICE = "nobody takes part in a round twice"
ROUND_NEVER_ENTERED = "a round that was never entered, or was begun anew, does not go to"
STAGE_DOES_NOT_FOLLOW = "a round at stage .* does not go to"
ODD_DEGREE = "each to all or an even number of the others"
POSITION_OUTSIDE_THE_GRAPH = "a position in a mask graph is at least 0 and below its size"
LOST_OUT_OF_RANGE = "0 <= lost < 1"
CORRUPT_AND_LOST_OUT_OF_RANGE = r"corrupt \+ 2 lost < 1"
NO_GRAPH_BEARS_SO_MANY_CORRUPT = "lower corrupt"
NOISE_WITHOUT_DOUBLE_MASKS = "noise is for sums under double masks"
TERMS_NOT_SAFE = r"no sum is safe unless corrupt \+ 2 lost is below 1000 per mille"
SUM_WITHOUT_NOISE_HAS_NO_PRICE = "a sum without noise has no price"
OPENED_TWICE_OR_BY_A_MEMBER = "a round is opened once, and its collector is not one of its members"
ANOTHER_COLLECTOR_THAN_THE_TASKS = "a round is collected by the identity that its task names"
SHARES_NEED_THE_RECEIVER = "shares are collected by Algorithm 1's receiver"
MEMBER_WITHOUT_MASKS = "terms of a sum under pads or double masks"
ENTROPY_FOR_KEYS_TOO_SHORT = "bytes of entropy for its keys"
ENTROPY_TOO_SHORT = "a member needs .* bytes of entropy"
MESSAGE_FOR_ANOTHER_PARTY = "has nothing to do with this"
ROUND_IS_OVER = "a round that is .* has no next step"
PADS_MISSING = "a pad for each of the N - 1 others"
COEFFICIENTS_OF_ANOTHER_LENGTH = "the coefficients must be as many as the shared model has columns"
STRANGER_ON_THE_ROSTER = "the roster lists somebody who has no place in this round"
ROSTER_TOO_SMALL_FOR_THIS_DEVICE = "the roster holds too few of the people for this device to take part"


def message_too_long(size: int, *, limit: int) -> str:
    return f"a message of {size} bytes is over the limit of {limit}"


def round_not_after(number: int, last: int) -> str:
    return f"round {number} is not after {last}, the last one"


def round_not_begun_anew_after(last: int) -> str:
    return f"is not begun anew after {last}, the last one"


def settled_otherwise(what: str) -> str:
    return f"this round has settled {what} in another way"


def stage_does_not_follow(held: str, wanted: str) -> str:
    return f"a round at stage {held} does not go to {wanted}"


def size_of_a_mask_graph(most: int) -> str:
    return f"2 to {most} devices"


def noise_needs_a_floor_of(least: int) -> str:
    return f"with a floor of at least {least}"


def entropy_of_a_member(size: int) -> str:
    return f"a member needs {size} bytes of entropy, and terms"


def elements_of_the_ring(elements: int, *, bits: int) -> str:
    return f"the terms call for {elements} elements of the ring of {bits} bits"


# proofs

SIZES_OF_A_REPORT = "at least one entry, bound, chunk, proof and success"
ANOTHER_REPORT = "this is not the report of this round"
NOT_GIVEN_UP = "is not given up"
WINDOW_OVER = "a window ends once"
TERMS_OF_TWO_OPERATORS = "a sum over two operators has terms of that kind, for numbers of 64 bits"
NOISE_BELOW_THE_FLOOR = "noise is for sums with a floor of at least"
SUM_COULD_WRAP_THE_FIELD = "the sum with its noise could pass p/2: use fewer fraction bits, or fewer people"
TWO_PARTIES = "the two operators are two parties, with keys of their own"
OPERATOR_OF_THE_TASK = "an operator has the keys that its task names"
BEGUN_ONCE = "a round is begun once"
RESTORED_FIRST = "an operator is restored before it does anything else"
SETTLED_IN_ORDER = "reports are settled in their order"
SETTLED_LATE = "reports are settled in a round that was entered, and is not closed"
NO_ROSTER = "a sum over two operators has no roster"
RESTORED_OPERATOR = "this operator has no key of the campaign"
OTHER_VERSION_OF_HELPER = "the helper runs another version of PriRec than this recommender"
NO_HELPER = "sums.operators = 2 needs a helper"
WINDOW_LENGTH = "a window lasts"
ROTATED_IN_A_CAMPAIGN = "a campaign is under way, and its charter names the operators' keys"
NO_SUCH_NEXT_KEY = "the helper has no such next key"
KEY_WAS_USED = "an operator has, or has had, that key"
NO_NEXT_KEY = "that is not this operator's next key"
LACKS_NEXT_KEY = "the new key is not in this store"
OTHER_PAIR = "this helper is paired with another deployment"
WHOLE_KEY = "an operator's key has 64 hexadecimal digits"
HELPER_ADDRESS = "a helper's address is like https://name:8443"
NOT_SIGNED = "the helper does not sign it"
SIGNED_LATER = "the helper's signature is from the future"
CLOSED_EARLY = "a window is closed before its time"
HELPER_AND_KEY = "--helper and --helper-key belong together"
LENGTH_OF_TIME = "--window takes a length of time, such as 90m, 6h or 2d"
IMPOSSIBLE_LIST = "a list names somebody who has joined already, or was never there"
NOT_PAIRED = "this helper does not know its recommender yet"
PROOFS_IN_ONE_BYTE = "the number of proofs is one byte"
BOUND_TOO_LARGE_FOR_THE_FIELD = "too large for a field of 64 bits"
VECTOR_OF_ANOTHER_LENGTH = "the vector has another length than the parameters say"
LONGER_THAN_ITS_BOUND = "the vector is longer than its bound"
RANDOM_BYTES_OF_A_REPORT = "random bytes"
LARGER_ALPHA = "choose a larger alpha"
VERIFICATION_KEY_LENGTH = "a verification key has"
POINT_OF_A_WIRE = "the point of the query would show what a wire holds"
PROOF_DOES_NOT_HOLD = "a report's proof does not hold"
JOINT_RANDOMNESS_OF_OTHER_SHARES = "joint randomness is not that of its shares"


# recommender

STORE_HAS_A_DEPLOYMENT = "a deployment was founded in this store before"
STORE_WITHOUT_A_DEPLOYMENT = "no deployment was founded in this store; run prirec recommender init first"
STORE_CLOSED = "this store is closed"
STORE_ADDRESS_INVALID = "a store is a file, sqlite:///a-file or postgresql://"
CAMPAIGN_STATE_DAMAGED = "the store's account of the campaign is damaged; restore the store from a backup"
NO_CAMPAIGN_TO_END = "there is nothing to end"
CAMPAIGN_UNDER_WAY = "a campaign is under way"
NOT_A_DEVICE_NAME = "a device's name has 64 hexadecimal digits"
DEVICE_BROKE_THE_PROTOCOL = "broke the protocol: "
NO_SUCH_DEVICE = "no device of that name is enrolled, and none was blamed"
EXCLUDED_ALREADY = "that device is excluded already"
NOT_EXCLUDED = "that device is not excluded"
SHARES_OF_ANOTHER_KEY = "a member has shared another secret than it masked with"
ODD_ORIGIN = "an app's origin is like"
NO_PORT_AFTER_IT = "has no port after it: name another one, or one for the operator"
NO_CATALOGUE = "there is no catalogue yet: prirec recommender publish"
START_WITHOUT_ROUNDS = "a starting model is one that rounds have trained"
START_IS_PUBLIC = "the starting model is public as it is"
START_OF_BEFORE = "devices go on with the starting model of before"
START_OF_ANOTHER_CITY = "places: it is of another city"
START_WITH_OTHER_PLACES = "the starting model describes places otherwise"
MODEL_OF_A_CAMPAIGN_IS_IN_USE = "a campaign has published a model, which devices recommend with"
CATALOGUE_WITHOUT_THE_CAMPAIGNS_PLACES = "has not the places that it was offered with"
REGION_TOO_LARGE = "publish by a finer resolution"
OPENED_SUM_OF_ANOTHER_SIZE = "the opened sum has not one entry of the ring for each place"
MOMENTS_WITHOUT_AN_EDITION = "moments are summed under an edition"
OPENED_MOMENTS_OF_ANOTHER_SIZE = "the opened sum has not the length of a vector of moments"
PLACES_FOLDER_MISSING = "there is no such folder; places are published from"
PLACE_ID_NOT_PRINTABLE = "that cannot be shown"
PLACE_TWICE = "the id of a place is there twice"
NO_PLACE = "there is no place to publish"
DEVICE_TWICE_ON_THE_ROSTER = "a device is on the roster twice"
CHARTER_WITH_POPULARITY = "a charter's encoding has no popularity"
LEASE_LOST = "another worker conducts the rounds now"
CAMPAIGN_MOVED_ON = "another worker has gone on with the campaign"
DOCUMENT_UNDER_ANOTHER_HASH = "a document is put under its own hash"
LOG_ENTRY_OUT_OF_ORDER = "a log entry is not the next one"
LOG_ENTRY_WITHOUT_ITS_DOCUMENT = "names a document that is not in the store"
MESSAGE_OUTSIDE_AN_OPEN_ROUND = "this one was never entered, or is over"
SCHEMA_NOT_OURS = "that is not PriRec's; name another database"
TABLES_UNKNOWN = "has other tables than this program knows, .* look at its privileges"
DATABASE_DAMAGED = "is damaged; put back a copy that is whole"
DATABASE_UNREACHABLE = "was lost, or cannot be reached"
DATABASE_SHUTTING_DOWN = "is shutting down or starting up"
POSTGRES_DRIVER_MISSING = r"pip install 'prirec\[recommender\]'"
TOO_MANY_REQUESTS = "TOO_MANY"
DOCUMENT_DAMAGED = "a document of the store"
LOG_DAMAGED = "the log of the store"
ADDRESS_TAKEN = "cannot be listened on"
SAME_PORTS = "devices and the operator need a port each"
NO_WORKERS = "a service has at least one worker"
ONE_WORKER_ONLY = "inside a running event loop or a thread a service has one worker"
CERTIFICATE_WITHOUT_ITS_KEY = "a certificate and its key belong together"
DATABASE_COPIED_BY_ITS_OWN_MEANS = "such as pg_dump --schema=prirec"
NOT_A_HOST = "a server goes by a host name in ASCII, such as recommender.example"


def other_role(role: str) -> str:
    return f"this store is a {role}'s, whose commands are another group"


def no_store(path: object, role: str, maker: str) -> str:
    return f"there is no store {_exactly(path)}; prirec {role} init makes one, and {maker}.create"


def reason_in_one_line(most: int) -> str:
    return f"a reason is one line of 1 to {most} characters"


def not_a_port(last: int) -> str:
    return f"a port is a number from 0, which takes a free one, to {last}"


def start_with_unknown(whose: str, column: str) -> str:
    return f"the starting model describes {whose} by what devices do not use.*{_exactly(column)}"


def would_drown(people: int) -> str:
    return f"noise would drown what {people} people can teach"


def would_take_much(people: int) -> str:
    return f"noise would take much from what {people} people can teach"


def too_few_enrolled(devices: int) -> str:
    return f"devices enrolled so far: {devices}"


def no_sum_over_fewer_than(people: int) -> str:
    return f"no sum over fewer than {people} people is opened"


def enough_are_left_from(devices: int, *, lost: str) -> str:
    return f"with {devices} devices a sum is opened even if {lost} of them drop out"


def code_length(most: int) -> str:
    return f"an enrolment code has 1 to {most} characters"


NO_ENROLMENT_CODE = "there is no enrolment code: its file has one line, the code"
CODE_VARIABLE_NOT_READ = "is not read any more: others can see it; write the code to a file"


def resolution_of_regions(finest: int) -> str:
    return f"regions are h3 cells of resolution 0 to {finest}"


def collector_has_no_stage(stage: str) -> str:
    return f"a collector has no stage {stage}"


def file_there_already(name: str) -> str:
    return f"{_exactly(name)} is there already; move it away"


def certificate_or_key_unreadable(certificate: str) -> str:
    return f"{_exactly(certificate)} and .* cannot be read as a certificate and its key"


# rehearsal

FEWER_PEOPLE_THAN_DEVICES = "people are left of that folder: a city of them has"

# experiments

ATTACK_ON_ANOTHER_SCHEDULE = "this attack is on the "
TOO_FEW_TO_ATTACK = "the sum is over too few people to be opened, so there is nothing to attack"
NOTHING_TO_SEARCH = "has no learning rate or regularisation to be searched for"

# sharing

SUM_COULD_WRAP = "the sum could wrap"
BEYOND_THE_BOUND = "a value to be summed is not a number or is larger than the bound"
FIELDS_OF_A_KEY_INVALID = "the fields that a key is bound to are bytes, text or whole numbers"
KEY_OR_SIGNATURE_INVALID = "a key or a signature does not hold"
NOT_IN_THE_LIST = "this is not part of the list with this root"
NO_LEAF = "a hash tree needs at least one leaf"
WORDS_OUTSIDE_A_RING = "of the ring of 64 or 32 bits"


def beyond_the_bound(bound: float) -> str:
    return f"larger than the bound {bound:g}, for which the ring was sized"


def sum_could_wrap(summands: int, *, bound: str) -> str:
    return rf"n \(B 2\^f \+ 1/2\) <= 2\^\(l-1\) - 1 fails for n = {summands}, B = {_exactly(bound)},"


def secret_too_short(least: int) -> str:
    return f"keys are derived from a secret of at least {least} bytes"


def secret_key_length(size: int) -> str:
    return f"a secret key is {size} bytes"


def seed_length(size: int) -> str:
    return f"a seed is {size} bytes, all of them secret"


def position_in_the_list(last: int) -> str:
    return rf"positions 0 \.\. {last}"


def one_of_the_parties(parties: int) -> str:
    return f"the owner is one of {parties} parties"


# simulate

CHANGES_OF_WHOLE_SETTINGS = "these settings are whole already"
SETTINGS_NOT_A_MAPPING = "settings of the model '.*' are a mapping"
FOLDER_EXISTS = "exists; name another folder"
SETTING_NOT_READ = "is read by .* alone, which this training has not"
OVERWRITE_REPLACES_A_RUN = "overwrite replaces an earlier run"
NO_RUN_TO_OVERWRITE = "it holds no earlier run to overwrite"
RUN_UNREADABLE = "cannot be read by this version"
NO_PLACE_OF_THE_RUN = "no place of this run is in these data"
RUN_WITHOUT_KEYS_OF_PLACES = "the catalogue of this run has not one key for each place"
OTHER_RECORDS = "this run was trained on other records"
OTHER_PEOPLE = "nobody of this run is in these data; it was trained on other people"
MODELS_OF_ANOTHER_SIZE = "of this run have not the size or kind"
NO_RUN = "there is no run in"
OR_ANOTHER_FOLDER = ", or name another folder"
RUN_OF_AN_EARLIER_VERSION = "the run in .* was saved by an earlier version; train again$"
RUN_VERSION_UNKNOWN = "the run in .* has version .*, this program reads version"
NOT_CARRIED_OVER_PARTS = "not carried over parts"
EPSILONS_MISSING_OR_TWICE = "give at least one epsilon, and none twice"
YEARS_WITHOUT_A_PERIOD = "years has no meaning here: no budget has a period"
FIELD_COULD_WRAP = "n B 2\\^f \\+ noise <= p/2 fails"
TOO_FEW_REPORTS = "fewer than the floor; lower participation.dropout"
TOO_MANY_DROP_OUT = "fewer than sums.lost allows; lower participation.dropout or raise sums.lost"
QUALITY_WITHOUT_A_BUDGET = "quality figures have no part of the privacy budget"
PLAN_FOR_OTHER_FIGURES = "the plan for quality figures is for another number of people, or for a shorter vector"
FIGURES_NEED_ONE_SCORE = "there is one score for each test record, one hit for each person"
MODEL_NEEDS_ARGUMENTS = "cannot be made without arguments"
SCORES_OF_ANOTHER_SHAPE = "one number for each of"
SCORES_NOT_NUMBERS = "hold NaN; every record needs a number"
TRAINED_ON_ANOTHER_CITY = "it was trained on another city"
WORSE_THAN_KNOWING_NOTHING = "is worse than knowing nothing, on these test records"
NEIGHBOURS_DRAWN_ANEW = "this city has no coordinates: neighbours are drawn anew"
NO_LEARNING_RATE_HELPS = "; no learning rate helps"
NO_QUALITY_FIGURE = "no quality figure can be read: "
NO_FIGURE_WILL_BE_READ = "too much to read any of them, and their part of the budget would be spent for nothing"
REPORTERS_ARE_KNOWN = "Whoever answers about a place is known to have a record there"
NO_NEW_PLACE = "no new place is"
CITY_IS_MADE_UP = "the city is made up, so yours will differ"
AUC_OF_POPULARITY_ALONE = "AUC is that of popularity alone, not of a model"
REPLACE_ONE_EXPLAINED = "replace-one ε compares any two contributions"
NO_POPULARITY_WITHIN_A_BUDGET = "these settings release no popularity within a budget"


def no_such_model(name: str) -> str:
    return f"no preset and no registered model is called '{name}'"


def model_cannot_be_loaded(where: str) -> str:
    return f"is registered as {where}, and cannot be loaded"


def not_a_model(name: str) -> str:
    return f"{name} is no model: it has no method fit"


def fit_returned(kind: str, *, model: str) -> str:
    return f"fit of the model '{model}' returned {kind}, which has no method scores"


def places_differ(same: int, *, places: int) -> str:
    return (
        f"of {places} places that this run and these data both name {same} are the same: it was trained on another city"
    )


def give_the_data_of_the_run(source: str) -> str:
    return rf"give the data that it was trained on \({source}\), or train again"


def run_has_lost(file: str) -> str:
    return f"the run in .* has lost its {_exactly(file)}"


def run_file_damaged(file: str) -> str:
    return f"{_exactly(file)} in .* is damaged"


def run_left_in(folder: str) -> str:
    return f"is in {_exactly(folder)} beside it: rename that back"


def entries_of_another_type(found: str) -> str:
    return f"an array has entries of {found} instead of"


def devices_left_for_popularity(devices: int) -> str:
    return rf"popularity is not opened: .* of {devices} devices are left"


def devices_left_for_quality(left: int, *, devices: int) -> str:
    return f"quality figures are not opened: {left} of {devices} devices are left"


def no_such_mechanism(name: str, *, known: str) -> str:
    return f"no mechanism '{name}' is registered; there are {known}"


def visits_of_a_made_up_city(most: int) -> str:
    return f"at most {most:,} visits"


def no_place_within(km: float) -> str:
    return f"no place is within {km} km of that point"


def new_places_within(places: int) -> str:
    return f"only {places} new places are"


def nearest_beyond_are_shown(km: float) -> str:
    return f" within {km:g} km; the nearest beyond are shown too"


def epsilon_of_bits(places: int) -> str:
    return f"ε = 1 per bit, with a bit for each of {places} places, is ε = {places} per user"


def read_by_others_only(setting: str, *, reader: str) -> str:
    return f"^{_exactly(setting)} is read by {_exactly(reader)} alone, which this training has not"


# util

LATITUDE_FIRST = "give latitude first, then longitude"
LOCATIONS_OF_ANOTHER_SHAPE = r"locations have shape \(n, 2\)"
FILE_DAMAGED = "is damaged; move it away"
FILE_NOT_OURS = "is not a file of PriRec's"
FILE_NOT_WRITABLE = "cannot be opened for writing"
FILE_CLOSED = "is closed, or was opened by another thread"
DISK_FAILS = "the disk is full, or fails; nothing was written"
DISK_FULL = "does not fit on the disk any more; nothing was written. Make room"
WRITTEN_BY_ANOTHER_PROCESS = "is being written by another process; nothing was written"


def version_too_new(found: int, *, newest: int) -> str:
    return f"has version {found}, this program knows {newest}; .* newer program"


def file_not_written(name: str) -> str:
    return rf"{name} could not be written \([^)]*\); look at the disk"


def file_not_made(reason: str) -> str:
    return rf"could not be made \({reason}\); name a folder"


def extra_missing(extra: str) -> str:
    return rf"get them with: pip install 'prirec\[{extra}\]'"


def store_unusable(code: str) -> str:
    """SQLite's or PostgreSQL's code of the error."""
    return rf"could not be used \({code}.*\); nothing was written"


# wire

CATALOGUE_OF_OTHER_PLACES = "the catalogue has other places than the campaign began with"
CELLS_OF_SEVERAL_RESOLUTIONS = "regions are not the cells of one resolution"
OWN_PART_NOT_SEPARABLE = "nobody could leave an own part out of this popularity"
NUMBER_TOO_LARGE = "a number is not finite, or larger than any that could be meant"
POPULARITY_NOT_YET_KNOWN = "popularity is known once the sum of visits is open"
ANOTHER_DOCUMENT = "a document is not the one that was asked for"
DOCUMENT_OF_ANOTHER_KIND = "a document is of another kind"
ARRAY_OF_ANOTHER_SIZE = "an array in a document has not the size"
CAMPAIGN_TOO_LARGE = "no device can be asked to follow this campaign"
TOO_MANY_FEATURES = r"encoding: there are at most .* features"
MODEL_TOO_LARGE = "encoding: the shared model would have more than"
MODEL_BEYOND_USE = "a published model has entries that are no numbers, or beyond all use"
MODEL_OF_ANOTHER_CAMPAIGN = "the model is another campaign's"
SCALES_BEYOND_USE = "scales are no numbers, or beyond all use"
PARTS_LEFT_OPEN = "a charter names the parts of the budget, and a budget$"
NOT_THE_SAME_VERSION = "the recommender and this device do not speak the same version"
ANOTHER_HELPER = "the recommender at that address names another helper than expected, or none"
OTHER_OPERATORS = "a campaign names another helper than this device has pinned, or one where it has pinned none"
SIGNED_HEAD_GOES_BACK = "what the helper has signed goes back behind what this device has seen"
SIGNED_HEAD_IS_ANOTHER = "the log that the helper has signed is not the one that this device is shown"
LOG_WITHOUT_HELPER = "the log comes without the signature of the helper"
STALE_HEAD = "the helper has not signed the recommender's log for a day"
WINDOW_CHANGED = "the window of a sum has changed otherwise than by closing later"
SETTINGS_OF_A_CHARTER = "the charter has settings that nobody may choose: "
OPERATORS_OF_A_CHARTER = "a charter names a roster with one operator; with two, both with a key each, and no roster"
CATALOGUE_OF_AN_EARLIER_VERSION = "the catalogue was published by an earlier version; publish it again"
DOCUMENT_OF_AN_EARLIER_VERSION = "a document is of an earlier version of PriRec"
SIMULATION_ONLY = "these settings are for a simulation, not for a deployment"


def own_floor(devices: int, most: int, left: int) -> str:
    return f"only in sums over at least {devices} devices, and of the {most} here only {left} have to be left"


def simulation_only(setting: str) -> str:
    return rf"for a simulation, not for a deployment \({_exactly(setting)}"


# prirec_experiments

NOT_RESULTS = "is no file of results"
DMF_HAS_NO_BIASES = "DMF has no biases"
RIVALS_LOSS_NOT_A_NUMBER = "the loss is no longer a number: give alpha or the penalties a smaller value"
RIVALS_MODEL_NOT_A_NUMBER = "a model is no longer a number: give alpha or the penalties a smaller value"
RIVALS_DIMENSION_OR_SEED_NEGATIVE = "dimension and seed must be 0 or more"
RIVALS_STEP_OR_SPREAD_OUT_OF_RANGE = "alpha must be above 0, spread 0 or more"
RIVALS_PENALTIES_NEGATIVE = "lambda_w and lambda_v must be 0 or more"
PLACE_OUTSIDE_THE_CATALOGUE = "what is drawn is a place of the catalogue"
OPTUNA_ON_A_CLUSTER = "on a cluster search --by grid"
NO_PUBLISHED_DATA = "holds none of the published data"
DATA_OF_YOUR_OWN = "it is a data folder of your own: use `prirec train` and `prirec evaluate`"
QUICK_READS_NO_DATA = "--quick makes up a city and reads no data: leave out --quick or --data"
RESULTS_OF_QUICK_RUNS = "those of quick runs are shown with --quick"


def no_such_experiment(name: str) -> str:
    return f"^there is no experiment '{name}'; "


def no_such_city(name: str) -> str:
    return f"^there is no city '{name}'; "


def no_such_tuned_model(name: str) -> str:
    return f"^no model '{name}' can be tuned; "


def model_option_belongs_to(experiments: str) -> str:
    return f"--model belongs to {experiments}: name one of them"


def graph_and_records_differ(graph: int, records: int) -> str:
    return f"the user graph is of {graph} people, the records are of {records}"


# web/src: the TypeScript device

OPEN_ELSEWHERE = "this device is open elsewhere"


class Foreign:
    """Not ours: messages of Python, of the operating system, of libraries, and of the tests' own helpers."""

    NO_SPACE_LEFT = "No space left on device"
    IS_A_DIRECTORY = "Is a directory"
    UNABLE_TO_OPEN = "unable to open"
    ABSTRACT_CLASS = "abstract"
    TIMEOUT = "TimeoutError"
    CERTIFICATE_VERIFY_FAILED = "CERTIFICATE_VERIFY_FAILED"
    TLS_ALERT = "(?i)alert|protocol|reset|eof"
    NO_SUCH_FILE = "No such file or directory"
    EXTRA_ARGUMENT = "got unexpected extra argument"
    MISSING_ARGUMENT = "^missing argument"
    MISSING_OPTION = "^missing option"

    UNEXPECTED = "RuntimeError: unexpected"
    REPORTS_DIFFER = "say"
    STATES_DIFFER = "differ"
    SEARCH_BROKE = "a search that broke"
    TWO_VECTORS_AT_ONE_NUMBER = "two vectors at one number"
    TWO_DIFFERENT_MESSAGES = "two different things"
    NOT_YOU = "not you"
    BLOCK_FAILED = "this block"
    SEVERAL_GENERATED_PARTS = "one generated part"
