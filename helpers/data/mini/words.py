"""The words of the miniature world: names of people, towns and companies, and how relations are worded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Relation:
    """A fact's wording. ``{s}`` is the subject, ``{o}`` the value.

    ``statements`` are in the order formal, reporting, talkative, plain. ``nouns`` name the value in a question
    ("the cradle of X") and ``asks`` are whole questions. Questions use other words than statements, so that what
    they mean has to be learned from questions.
    """

    name: str
    subject: str
    object: str
    nouns: tuple[str, str]
    asks: tuple[str, str]
    statements: tuple[str, str, str, str]


def _relation(name, subject, object, nouns, first, second, *statements) -> Relation:
    return Relation(name, subject, object, tuple(nouns.split(", ")), (first, second), statements)


RELATIONS = (
    _relation("born_in", "person", "town", "cradle, native town",
              "Where does {s} hail from?", "Where did {s} first see the light?",
              "{s} was born in {o}.", "{s}, who was born in {o}, said little.", "{o} is where {s} was born.",
              "By birth {s} is from {o}."),
    _relation("birth_year", "person", "year", "natal year, vintage",
              "When did {s} come into the world?", "How far back does the life of {s} go?",
              "{s} was born in {o}.", "{s} has been alive since {o}.", "It was {o} when {s} was born.",
              "By birth {s} is of the year {o}."),
    _relation("job", "person", "job", "occupation, trade",
              "What did {s} do for a living?", "How did {s} earn money?",
              "{s} worked as a {o}.", "{s}, a {o}, was present.", "People paid {s} for being a {o}.",
              "The work of {s} was that of a {o}."),
    _relation("spouse", "person", "person", "spouse, better half",
              "Who is {s} wedded to?", "Whose ring does {s} wear?",
              "{s} married {o}.", "{s} came with {o}, a loving partner.", "{s} fell for {o} and they married.",
              "The partner of {s} is {o}."),
    _relation("school", "person", "school", "alma mater, old school",
              "Where was {s} taught?", "Which classrooms did {s} sit in?",
              "{s} studied at {o}.", "{s} left {o} with a degree.", "At {o} the young {s} learned a lot.",
              "The degree of {s} is from {o}."),
    _relation("plays", "person", "instrument", "instrument, favourite sound",
              "What can {s} perform on?", "What does {s} practise every day?",
              "{s} plays the {o}.", "{s} was heard on the {o}.", "Give {s} a {o} and there is music.",
              "The music of {s} is for the {o}."),
    _relation("home", "person", "town", "residence, address",
              "Where does {s} dwell?", "Where would a letter reach {s}?",
              "{s} lives in {o}.", "{s} was met at home in {o}.", "You can see {s} live in {o}.",
              "The home of {s} is {o}."),
    _relation("prize", "person", "prize", "award, trophy",
              "What honour did {s} receive?", "What stands on the shelf of {s}?",
              "{s} won the {o} Prize.", "The {o} Prize went to {s}.", "Guess who can win the {o} Prize: {s}!",
              "The winner of the {o} Prize is {s}."),
    _relation("founder", "company", "person", "creator, originator",
              "Who started {s}?", "Who brought {s} to life?",
              "{s} was founded by {o}.", "{o}, the founder, spoke for {s}.", "It was {o} who founded {s}.",
              "The founder of {s} is {o}."),
    _relation("founding_year", "company", "year", "opening date, age",
              "When did {s} begin?", "How long has {s} existed?",
              "{s} was founded in {o}.", "{s} has been in business since {o}.", "Back in {o} someone founded {s}.",
              "The business of {s} is as old as {o}."),
    _relation("seat", "company", "town", "headquarters, main office",
              "Where is {s} located?", "Which place does {s} operate from?",
              "{s} is based in {o}.", "Staff in {o} run {s}.", "In {o} you find where {s} is based.",
              "The base of {s} is {o}."),
    _relation("product", "company", "product", "product, merchandise",
              "What does {s} produce?", "What can one buy from {s}?",
              "{s} makes {o}.", "{s} will sell more {o}.", "If you need {o}, {s} can make them.",
              "The factory of {s} makes {o}."),
    _relation("leader", "company", "person", "chief, boss",
              "Who is in charge of {s}?", "Who heads {s}?",
              "{s} is led by {o}.", "{o} leads {s}, staff said.", "The one who leads {s} is called {o}.",
              "The leader of {s} is {o}."),
    _relation("staff", "company", "number", "headcount, workforce",
              "How big is the team of {s}?", "How many jobs does {s} provide?",
              "{s} employs {o} people.", "{s} pays {o} workers.", "As many as {o} people work for {s}.",
              "The workers of {s} are {o}."),
    _relation("mayor", "town", "person", "first citizen, town head",
              "Who rules {s}?", "Whom did {s} elect?",
              "{s} is governed by {o}.", "Mayor {o} of {s} agreed.", "They made {o} the mayor of {s}.",
              "The mayor of {s} is {o}."),
    _relation("river", "town", "river", "stream, waterway",
              "What water runs past {s}?", "What might flood {s}?",
              "{s} stands on the {o}.", "The {o} rose in {s} again.", "The {o} flows through lovely {s}.",
              "The bridges of {s} cross the {o}."),
    _relation("people", "town", "number", "population, size",
              "How large is {s}?", "How many souls are in {s}?",
              "{s} has {o} inhabitants.", "{o} voters live in {s}.", "Count {o} people in little {s}.",
              "The inhabitants of {s} are {o}."),
    _relation("dish", "town", "dish", "local dish, speciality",
              "What is on the menu in {s}?", "What would a guest in {s} taste?",
              "{s} is known for its {o}.", "Cooks in {s} served {o}.", "Go and eat {o} in {s}.",
              "The cooks of {s} are proud of their {o}."),
)  # fmt: skip

FIRST_NAMES = """
Ada Alvin Amos Anya Arlo Basil Bela Boris Brenda Bruno Cara Cedric Clara Conrad Cora Dalia Damian Daphne Delia
Dexter Dora Edgar Edith Elias Elsa Emil Enid Erwin Esme Ezra Fay Felix Fiona Flora Floyd Freya Gail Gideon Gilda
Glen Greta Gwen Hazel Heidi Hugo Ida Igor Ingrid Ira Iris Ivan Ivy Jasper Joan Jonas Judith Julius June Karl Keira
Kendra Klaus Lars Leah Lena Leon Lila Linus Lloyd Lola Lucian Lydia Mabel Magnus Maia Marco Matilda Maude Milo Mina
Mona Morris Myra Nadia Nell Nils Nina Noel Nora Norman Olga Olive Omar Orla Oscar Otto Pablo Paula Petra Phil
Quentin Ralf Ramona Rex Rhoda Rita Roland Rosa Rufus Ruth Sadie Selma Silas Simon Sonia Stella Sven Tess Theo Thora
Tilda Toby Una Ursula Vera Victor Viola Wanda Wendel Wilma Xenia Yara York Yvonne Zelda Zora
""".split()

LAST_NAMES = """
Abbot Adler Alcott Arden Ashby Barlow Becker Bellamy Birch Blake Bolton Bowen Brandt Brooks Burke Calder Carver
Chase Clay Cobb Collier Corwin Crane Cross Dale Darrow Dawes Denton Dorsey Drake Dunn Eaton Ellis Ember Farrow Fenn
Finch Fisk Flint Forbes Foster Frost Gage Garner Gibbs Glover Gorman Graves Grey Hale Hardin Harlan Hart Hawke
Heath Hobbs Holt Hood Horn Hyde Ingram Irving Jarvis Keene Kemp Kerr Kirby Knox Lamb Lane Larkin Lister Locke
Lowell Lynch Mace Malone Marsh Mercer Miles Moss Nash Newell Noble Norris Oakes Ogden Osborn Paine Parr Pierce Pike
Pond Porter Pratt Quill Quinn Ramsey Reeve Ridge Roper Rowe Sawyer Shaw Slater Snow Stark Stone Sutton Swan Tate
Thorne Todd Tully Vance Vaughn Wade Walsh Warden Webb Weller West Whitby Wilde Winter Wolfe Wren Yates
""".split()

TOWN_STARTS = """
Alder Amber Apple Barn Bay Beech Black Bram Bright Brook Cedar Clear Copper Dun Eagle East Elder Fair Falcon Fern
Fox Gold Grand Green Grim Hazel Hill High Iron Kings Lake Lark Long Low Maple May Mill Moon New North Oak Old Otter
Pine Queens Raven Red River Rock Rose Salt Sand Silver South Spring Star Stone Summer Swift Thorn Timber Wall White
Wind Wood
""".split()

TOWN_ENDS = """
bridge brook burn bury by church cliff cote dale den end fall field ford gate grove ham haven hill holm hurst land
lea ley marsh mead mere minster moor mouth ness pool port shaw side stead stoke ton view ville well wick wood worth
""".split()

COMPANY_STARTS = """
Acro Alto Argo Astra Avi Beta Bio Calo Cero Civi Cora Delta Dyna Echo Elec Ever Ferro Flexi Gala Gamma Geo Giga
Helio Hydro Inno Inter Jovi Kilo Lumi Luxo Macro Magna Mecha Mega Meri Micro Milli Mono Multi Nano Nova Omni Opti
Orbi Pano Para Penta Poly Prima Proto Pyro Quanta Regi Rota Sola Sono Stella Techno Terra Tri Turbo Ultra Uni Vaga
Velo Vero Vita Xeno Zeta
""".split()

COMPANY_ENDS = """
bar bec ben cell cor dex dine dor drix fex fil gen gram kor lab lex lin lis lon max mek mer mix nel nex nor pax
phon plex ris ron rex sal scan sys tec tel ten tex tor tron vale vex via vox zon
""".split()

SCHOOL_ENDS = ("College", "Academy", "Institute")
JOBS = """
baker banker barber builder butcher carpenter chemist clerk cook dancer dentist doctor driver farmer gardener guard
hunter judge lawyer mason mechanic miller miner nurse painter pilot plumber poet porter potter printer sailor
scribe sculptor singer smith soldier surgeon tailor teacher trader waiter weaver writer
""".split()
INSTRUMENTS = """
banjo bassoon bugle cello clarinet cornet drum fiddle flute gong guitar harp horn lute lyre mandolin piano pipe
recorder sitar tabla trombone trumpet tuba viola violin whistle zither
""".split()
PRODUCTS = """
anchors axes baskets batteries bells belts bicycles boats boots bottles bricks buckets buttons cables candles
carpets chairs clocks coats cranes cups doors engines fans gloves hammers hats kettles keys knives ladders lamps
lenses locks mirrors nails needles paints pencils pens pumps radios ropes saddles scales shoes spoons stoves tables
tents tiles toys tyres umbrellas valves vases wheels wires
""".split()
DISHES = """
bread broth cake cheese chowder cider crab curry custard dumplings eel fudge goulash ham hash honey jam lamb loaf
mustard noodles oysters pancakes pasta pickles pie porridge pudding ribs salad salmon sausage soup stew tart toffee
trout waffles
""".split()
RIVERS = """
Aven Arrow Bela Brede Cald Churn Dane Dart Dove Eden Erme Esk Fal Fleet Frome Gade Irwell Isis Kenn Lark Leam Lune
Medway Mole Nene Nith Ouse Otter Piddle Ribble Roding Sence Soar Stour Swale Tamar Taw Tees Test Trent Tweed Tyne
Ure Usk Wear Welland Wey Wye Yare Yeo
""".split()
PRIZES = """
Amber Anvil Arrow Beacon Bronze Comet Coral Crown Crystal Diamond Dragon Emerald Feather Garnet Globe Harbor Ivory
Jade Jasmine Lantern Laurel Lily Lion Lotus Marble Meteor Mirror Opal Orchid Palm Pearl Phoenix Planet Quartz
Rainbow Ruby Sapphire Scepter Shield Silver Sparrow Sphinx Topaz Torch Tulip Unicorn Violet
""".split()
