"""Word lists: the stuff sentences are made of. Nothing here knows about skills or training.

Every list may be split in two by `Pick` (corpus.py): one part is trained on, the other is kept for evaluation.
"""

NAMES = """Ada Adam Aisha Alex Alice Amara Amir Anna Anton Aria Arun Astrid Ava Bea Ben Bilal Bruno Carla Carlos Cara Cleo
Clara Dana Daniel David Diego Dora Edith Elena Eli Elif Ella Emil Emma Eric Esther Eva Farah Felix Fiona Finn Frank
Freya Gina Grace Greta Hana Hanna Harry Hugo Ida Igor Ines Ingrid Iris Isla Ivan Jack Jana Jane Jin Jonas Josef
Julia June Kai Karim Karl Kate Kira Klara Lars Laura Lena Leo Leon Lila Lina Linda Liv Lola Luca Lucy Luis Luna Maja
Mara Marco Maria Marie Mark Marta Mary Max Maya Mei Mia Mila Milo Mina Mira Nadia Naomi Nils Nina Noah Noor Nora
Olaf Olga Oliver Omar Oscar Otto Pablo Paul Paula Peter Petra Pia Priya Quinn Rafael Rana Raj Ravi Rita Robin Rosa
Rose Ruben Ruth Sam Samir Sara Selma Simon Sofia Sonja Stefan Sven Tara Tariq Tess Theo Tim Tina Tom Tomas Uma
Ursula Vera Victor Viola Wanda Wei Will Yara Yasmin Yuki Yusuf Zara Zoe""".split()

CITIES = """Amsterdam Athens Auckland Austin Bangkok Barcelona Basel Bergen Berlin Bern Bonn Boston Bremen Bristol Brussels
Cairo Cardiff Chicago Cork Dallas Delhi Denver Dresden Dublin Essen Florence Geneva Genoa Ghent Glasgow Graz Hamburg
Hanoi Havana Helsinki Istanbul Jakarta Kyiv Kyoto Lagos Leeds Leipzig Lima Linz Lisbon London Lyon Madrid Malmo
Manila Miami Milan Minsk Montreal Mumbai Munich Nairobi Naples Nice Osaka Oslo Ottawa Oxford Paris Perth Pittsburgh
Porto Prague Quito Riga Rome Rotterdam Salzburg Seattle Seoul Seville Sofia Sydney Tallinn Tampa Tokyo Toronto Tunis
Turin Utrecht Valencia Venice Vienna Vilnius Warsaw York Zagreb Zurich""".split()

REGIONS = """PA CA NY TX WA MA FL IL OH CO GA MI France Germany Italy Spain Japan England Canada Norway Sweden India Peru Kenya
Turkey Greece Austria China Brazil""".split()

COLOURS = "red blue green yellow black white brown grey pink purple orange silver golden violet".split()
ANIMALS = """cat dog horse cow sheep goat pig duck hen goose mouse rat rabbit fox wolf bear lion tiger deer frog fish bird owl
crow eagle swan bee ant spider snake turtle whale seal camel donkey monkey hamster parrot squirrel hedgehog badger
otter""".split()
FRUITS = "apple pear plum cherry grape banana orange lemon peach melon mango kiwi apricot fig".split()
VEGETABLES = "carrot onion potato tomato leek bean pea cabbage cucumber pumpkin spinach radish".split()
FOODS = "bread cheese soup rice pasta pizza salad cake butter egg honey sandwich pancake yoghurt".split()
DRINKS = "water milk tea coffee juice lemonade cocoa".split()
THINGS = """book pen cup bag box key lamp chair table bed door window bike car bus train boat kite ball drum clock phone hat
coat shoe sock shirt scarf glove ring spoon fork plate bowl bottle basket ladder hammer saw rope candle mirror
pillow blanket map coin stamp letter ticket camera radio piano guitar violin brush broom bucket umbrella wallet
pencil ruler notebook knife kettle""".split()
PLACES = """garden kitchen park school market forest beach river lake library museum station harbour village castle bridge
street office shop bakery farm field hill cave island tower barn attic cellar café zoo""".split()
JOBS = """teacher doctor nurse baker farmer painter singer pilot driver cook gardener writer engineer lawyer plumber carpenter
sailor tailor dentist librarian actor judge waiter butcher chemist designer programmer mechanic""".split()
HOBBIES = """chess painting swimming reading cooking running dancing singing fishing knitting hiking cycling skating sailing
drawing gardening baking climbing photography football tennis""".split()
ADJECTIVES = """big small old new young fast slow happy sad warm cold dry wet dark bright quiet loud soft hard heavy light clean
dirty rich poor brave shy kind strong weak tall short long wide narrow deep empty full sweet sour fresh busy calm
funny clever gentle hungry thirsty tired lonely proud lucky lazy curious""".split()
VERBS_PAST = """found lost bought sold carried painted broke fixed hid opened closed saw wanted borrowed washed kept dropped made
cleaned moved took brought chose held liked sent""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBER_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty""".split()
MATERIALS = "wood glass stone paper metal cotton wool leather plastic clay".split()
SURNAMES = """Abel Becker Bell Berg Brown Clark Cole Cook Costa Cruz Diaz Evans Fischer Ford Fox Garcia Gray Green Hall Hansen
Hill Hunt Ito Jones Kaya Keller Khan Kim King Klein Kumar Lang Lee Lopez Marsh Meyer Moore Novak Olsen Park Patel
Reed Rossi Sato Silva Smith Stone Tanaka Wagner Walsh Weber White Wong Wood Young Zhang""".split()
COMMON = """the a an and or but if then so because when while after before until with without from into over under between about
again also always never often sometimes soon later now today tomorrow yesterday here there where who what which why
how many much more less most least some any every each other another same different first second third last next
only very too quite almost please thank thanks hello goodbye yes no not can could will would should may might must
do does did done have has had is are was were be been being get give go come make take put say tell ask answer know
think see look find need want like love help try use work play read write count sort list name word words letter
letters number numbers sentence text value field object string line order result message question time day week
month year hour minute morning evening night people friend family child house home world country city street water
weather sun rain snow wind sky tree flower grass money price cost number model server option port host tool call
function file folder path endpoint request response stream token version default""".split()

ONSETS = "b bl br c ch cl cr d dr f fl fr g gl gr h j k kl kr l m n p pl pr qu r s sc sh sk sl sm sn sp st str t th tr v w y z zw".split()
VOWELS = "a e i o u ai au ea ee ie oa oo ou".split()
CODAS = [
    "",
    "",
    "",
    "b",
    "ck",
    "d",
    "f",
    "g",
    "l",
    "lm",
    "lt",
    "m",
    "mp",
    "n",
    "nd",
    "ng",
    "nk",
    "nt",
    "p",
    "r",
    "rk",
    "rn",
    "s",
    "sh",
    "sk",
    "st",
    "t",
    "th",
    "x",
    "z",
]
TOOLISH = """get set find search look send create add remove delete update list check convert translate calculate book order
cancel play stop start open close turn fetch track schedule remind reserve compute measure lookup weather forecast
temperature celsius fahrenheit degrees unit units location currency amount dollars euros pounds exchange rate timer
alarm minutes seconds hours reminder email message recipient subject body contact phone calendar event title date
start end duration meeting song artist playlist volume movie restaurant table guests cuisine flight hotel departure
destination passenger route distance kilometres miles package delivery order status shipped pending delivered stock
price product quantity cart customer account balance transfer invoice payment user username password login document
page article query results limit language source target text translation English French German Spanish Italian lamp
light brightness on off thermostat heating door lock room device sensor task priority high medium low note tag
category recipe ingredient calories dictionary definition synonym word random dice sides coin password length image
width height size colour format file folder path line code test branch issue label author review score rating
library isbn city country population timezone zone clock news topic headline available unavailable success failed
error done confirmed sunny cloudy rainy windy snowy clear warm cold mild heavy humidity speed small large true false
null none positive negative neutral sentiment topic label extract fields schema json following given using value
values key keys classify category belongs sentence review""".split()
STORY = """once upon lived walked went found lost little day friend friends forest home happy happily ever lived small wanted
helped together looked everywhere finally laughed smiled night moon stars suddenly heard noise saw gave shared
played began learned never afraid again village old tree river warm path slept dream dreamed""".split()

ACCENTED = "äöüßéèêñçøåæłżśğışčřžáíóúàâîôëï"  # letters that are cut into bytes

KEPT = "given own full best".split()  # in keys and names only when evaluating

PIECES = []  # the words of the vocabulary itself, filled in when there is one (train.py), so that all of it is met in copying
LETTERS = []  # those of them that are two letters or more
NEVER = set()  # wordings of the second set (fresh.py), filled in before training: whatever a pattern can say, training does not say these
