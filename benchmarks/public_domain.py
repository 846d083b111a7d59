"""Passages in the public domain: (title, author and year, paragraphs)."""

PASSAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "The Gettysburg Address",
        "Abraham Lincoln, 1863",
        (
            "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived "
            "in Liberty, and dedicated to the proposition that all men are created equal.",
            "Now we are engaged in a great civil war, testing whether that nation, or any nation so conceived and"
            " so dedicated, can long endure. We are met on a great battle-field of that war. We have come to "
            "dedicate a portion of that field, as a final resting place for those who here gave their lives that "
            "that nation might live. It is altogether fitting and proper that we should do this.",
            "But, in a larger sense, we can not dedicate—we can not consecrate—we can not hallow—this ground. The"
            " brave men, living and dead, who struggled here, have consecrated it, far above our poor power to "
            "add or detract. The world will little note, nor long remember what we say here, but it can never "
            "forget what they did here.",
        ),
    ),
    (
        "Moby-Dick; or, The Whale",
        "Herman Melville, 1851",
        (
            "Call me Ishmael. Some years ago—never mind how long precisely—having little or no money in my purse,"
            " and nothing particular to interest me on shore, I thought I would sail about a little and see the "
            "watery part of the world. It is a way I have of driving off the spleen and regulating the "
            "circulation.",
            "Whenever I find myself growing grim about the mouth; whenever it is a damp, drizzly November in my "
            "soul; whenever I find myself involuntarily pausing before coffin warehouses, and bringing up the "
            "rear of every funeral I meet; and especially whenever my hypos get such an upper hand of me, that it"
            " requires a strong moral principle to prevent me from deliberately stepping into the street, and "
            "methodically knocking people’s hats off—then, I account it high time to get to sea as soon as I can.",
        ),
    ),
    (
        "Pride and Prejudice",
        "Jane Austen, 1813",
        (
            "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be "
            "in want of a wife.",
            "However little known the feelings or views of such a man may be on his first entering a "
            "neighbourhood, this truth is so well fixed in the minds of the surrounding families, that he is "
            "considered the rightful property of some one or other of their daughters.",
            "“My dear Mr. Bennet,” said his lady to him one day, “have you heard that Netherfield Park is let at "
            "last?”",
            "Mr. Bennet replied that he had not. “But it is,” returned she; “for Mrs. Long has just been here, "
            "and she told me all about it.”",
        ),
    ),
    (
        "A Tale of Two Cities",
        "Charles Dickens, 1859",
        (
            "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
            "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of "
            "Light, it was the season of Darkness, it was the spring of hope, it was the winter of despair, we "
            "had everything before us, we had nothing before us, we were all going direct to Heaven, we were all "
            "going direct the other way.",
            "There were a king with a large jaw and a queen with a plain face, on the throne of England; there "
            "were a king with a large jaw and a queen with a fair face, on the throne of France. In both "
            "countries it was clearer than crystal to the lords of the State preserves of loaves and fishes, that"
            " things in general were settled for ever.",
        ),
    ),
    (
        "The Declaration of Independence",
        "In Congress, July 4, 1776",
        (
            "When in the Course of human events, it becomes necessary for one people to dissolve the political "
            "bands which have connected them with another, and to assume among the powers of the earth, the "
            "separate and equal station to which the Laws of Nature and of Nature’s God entitle them, a decent "
            "respect to the opinions of mankind requires that they should declare the causes which impel them to "
            "the separation.",
            "We hold these truths to be self-evident, that all men are created equal, that they are endowed by "
            "their Creator with certain unalienable Rights, that among these are Life, Liberty and the pursuit of"
            " Happiness.",
        ),
    ),
    (
        "Alice’s Adventures in Wonderland",
        "Lewis Carroll, 1865",
        (
            "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to"
            " do: once or twice she had peeped into the book her sister was reading, but it had no pictures or "
            "conversations in it, “and what is the use of a book,” thought Alice “without pictures or "
            "conversations?”",
            "So she was considering in her own mind (as well as she could, for the hot day made her feel very "
            "sleepy and stupid), whether the pleasure of making a daisy-chain would be worth the trouble of "
            "getting up and picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her.",
        ),
    ),
    (
        "On the Origin of Species",
        "Charles Darwin, 1859",
        (
            "It is interesting to contemplate an entangled bank, clothed with many plants of many kinds, with "
            "birds singing on the bushes, with various insects flitting about, and with worms crawling through "
            "the damp earth, and to reflect that these elaborately constructed forms, so different from each "
            "other, and dependent on each other in so complex a manner, have all been produced by laws acting "
            "around us.",
            "There is grandeur in this view of life, with its several powers, having been originally breathed "
            "into a few forms or into one; and that, whilst this planet has gone cycling on according to the "
            "fixed law of gravity, from so simple a beginning endless forms most beautiful and most wonderful "
            "have been, and are being, evolved.",
        ),
    ),
    (
        "Walden",
        "Henry David Thoreau, 1854",
        (
            "I went to the woods because I wished to live deliberately, to front only the essential facts of "
            "life, and see if I could not learn what it had to teach, and not, when I came to die, discover that "
            "I had not lived.",
            "I did not wish to live what was not life, living is so dear; nor did I wish to practise resignation,"
            " unless it was quite necessary. I wanted to live deep and suck out all the marrow of life, to live "
            "so sturdily and Spartan-like as to put to rout all that was not life, to cut a broad swath and shave"
            " close, to drive life into a corner, and reduce it to its lowest terms.",
        ),
    ),
)

PLANETS: tuple[tuple[str, ...], ...] = (
    ("Planet", "Diameter (km)", "Day (h)", "Moons"),
    ("Mercury", "4,879", "4222.6", "0"),
    ("Venus", "12,104", "2802.0", "0"),
    ("Earth", "12,756", "24.0", "1"),
    ("Mars", "6,792", "24.7", "2"),
    ("Jupiter", "142,984", "9.9", "95"),
)
"""Facts, as NASA's planetary fact sheet gives them: rows of a table, its head first."""
