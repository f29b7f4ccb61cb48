"""Words by which the ends of sentences are told, of the languages that most texts are written in.

They are few, and no list of them is whole: what is not in a list is decided by its form, see `sentence_ends`.
"""

import regex


def any_of(*lines: str, ignore_case: bool = True, after: str = "") -> "regex.Pattern[str]":
    """Return a pattern for any of some words, the longest that matches.

    Args:
        *lines: The words, separated by spaces.
        ignore_case: Whether letters match in either case.
        after: A pattern of what must follow the word.
    """
    words = sorted((regex.escape(word) for line in lines for word in line.split()), key=len, reverse=True)
    return regex.compile(f"(?:{'|'.join(words)}){after}", regex.IGNORECASE if ignore_case else 0)


BEFORE_NAMES = any_of(
    "mr mrs ms dr prof st rev gen col lt sgt capt gov sen rep hon mt messrs e.g i.e cf vs viz approx",
    "hr fr frl dipl ing z.b d.h bzw vgl mme mlle mgr sra srta sta dra dña uds avda sig sig.ra dott avv p.zza profa pza",
    "hab bd gs श्री dhr mevr drs",
    "ул гр пр просп пл пер вул им ім акад проф doc mudr judr ks np pl napr např npr tzv tzn tzw esim f.eks",
    "t.ex jl tp ts κα dl dna bul հմմտ",
)
"""Titles, and what introduces the words after it."""

BEFORE_NUMBERS = any_of(
    "no nos nr num núm fig figs abb tab eq eqs pp pag pág págs pàg pagg ver vol ch chap kap cap sec art ca cca blz obr",
    "стр рис табл гл rys godz lk tgl σελ",
)
"""What stands before numbers, and may be the last word of a sentence where none follows."""

ABBREVIATED = any_of(
    "al dept jan feb mar apr jun jul aug sept oct nov dec inc ltd co corp jr sr bros ph.d ud av ave blvd",
    "tel hrsg geb gest evtl ggf inkl exkl zzgl тыс млн млрд руб грн коп обл нач кон ст нар kb ul str στρ αι",
)
ABBREVIATED_NAMES = any_of("Fa Bd Jh Jhd Abs Mio Mrd Cad Sok Mah", ignore_case=False)
"""What may be the last word of a sentence as well: it ends where a word follows that begins sentences."""

BEFORE_ORDINALS = any_of(
    "am im vom zum zur beim seit bis ab der die das dem den des ein eine einem einen einer eines",
    "dieser dieses diesem diese jeder jedes jedem seine seiner seinem ihre ihrer ihrem",
)
MONTHS = any_of(
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember", ignore_case=False
)

PARTICLES = any_of("La Le Les De Da Di Du Del Della El Al Van Von Der Den Ten Ter O I", ignore_case=False)
"""What may stand between an initial and a name."""

STARTERS = any_of(
    "The A An It Its In On At He She They We You This That These Those There His Her Their Our But And However As",
    "After Before When While If For From By To With Since Then Also Although Another Some Most Many One What Who",
    "Where Why How I Is Are Was Were Not No Yes So",
    "Der Die Das Ein Eine Es Er Sie Wir Ich Ihr Man Im Am An Auf Mit Nach Vor Seit Bei Von Zu Zum Für Aber Und Oder",
    "Doch Dann Da Auch Wenn Als Weil Dies Diese Dieser Dieses Jetzt Hier Dort Danach Später Heute Was Wer Wie Wo",
    "Le La Les Un Une Il Elle Ils Elles Ce Cette Ces En Dans Au Aux Mais Et Puis Nous Vous Je Son Sa Ses Pour Par",
    "Avec Sur Quand Si El Los Las Una Se Pero Y Para Con Su Sus Él Ella Ellos Este Esta Esto Según Después Luego",
    "Cuando Lo Gli È Non Ma Per Nel Nella Poi Dopo Quando Questo Questa O Os As Um Uma É Em Na Não Mas E Com Ele Ela",
    "De Het Een Hij Zij Ze Wij Ik Dit Dat Deze Op Maar Dan Toen Daarna Na Voor",
    "В На С К У О По За Из От До При Он Она Оно Они Это Этот Эта Эти Но И А Потом Затем После Когда Если Как Что",
    "Кто Где Мы Вы Я Его Её Их Так Там Тогда Не Все Він Вона Вони Це Але І З Потім Тоді Після Коли Якщо Той Тя Това",
    "След W Z Do Od Dla Ona Ono To Ten Ta Ale Potem Następnie Kiedy Gdy Jeśli Nie V Ve Po Pak Když Byl Byla Je U Taj",
    "Ali Zatim Kada Az Egy Ez És Ő Majd Hän Ne Tämä Mutta Ja Sitten Kun Jos Det Den Han Hun Hon Vi Jeg Jag Men Og Och",
    "På Bu Bir Ama Sonra Ο Η Το Οι Τα Αυτός Αυτή Αυτό Και Αλλά Στο Στη Στην Μετά Όταν Αν Δεν Ea În Dar Și Apoi Când",
    ignore_case=False,
    after=r"(?=[\s,'’]|$)",
)
"""Words with which sentences begin, of the languages whose abbreviations may be the last words of one."""
