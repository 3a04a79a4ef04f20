#!/usr/bin/env python3
"""Counts clicks.tsv.gz without any of the product's code: see README.md.

    python3 tables.py            writes agents.tsv and expected.tsv
"""

import collections
import datetime
import gzip
import ipaddress
import re

DAY = datetime.timedelta(days=1)
FIRST = datetime.datetime(2015, 5, 17, tzinfo=datetime.timezone.utc)

# Links by the first part of the path.
LINKS = ("blog", "presentations", "images", "projects", "files", "articles")

# Places by network, as replay_test.go puts them into a database.
PLACES = (
    ("198.18.0.0/18", "DE", "Berlin"),
    ("198.18.64.0/18", "FR", "Paris"),
    ("198.18.128.0/18", "US", "Portland"),
    ("198.18.192.0/18", "US", ""),
    ("198.19.0.0/17", "BR", "São Paulo"),
    ("198.19.128.0/18", "FR", "Lyon"),
)

SAYS_BOT = re.compile(r"https?://|\w@\w|bot(?![a-z])|spider|crawl|preview|headless|externalhit|google-|-google"
                      r"|feedbin|feed fetcher|google favicon|googleimageproxy|portscout|libfetch|python-|nutch|^wget|^zdm/|^&", re.I)

BOTS = (  # by what they call themselves
    ("Feedly", "Feedly"), ("Googlebot", "Googlebot"), ("Feedfetcher-Google", "Google"), ("Google Web Preview", "Google"), ("Google favicon", "Google"),
    ("bingbot", "Bingbot"), ("msnbot", "Bingbot"), ("BingPreview", "Bingbot"), ("YandexBot", "YandexBot"), ("YandexImages", "YandexBot"),
    ("Baiduspider", "Baiduspider"), ("Yahoo! Slurp", "Yahoo! Slurp"), ("Twitterbot", "Twitterbot"), ("facebookexternalhit", "Facebook"),
    ("MJ12bot", "MJ12bot"), ("Exabot", "Exabot"), ("Sogou", "Sogou"), ("Mail.RU_Bot", "Mail.RU_Bot"), ("archive.org_bot", "Archive.org"),
    ("FeedBurner", "FeedBurner"), ("UptimeRobot", "UptimeRobot"), ("DotBot", "DotBot"), ("SeznamBot", "SeznamBot"), ("AhrefsBot", "AhrefsBot"),
    ("Python-", "Python"), ("Wget/", "Wget"),
)


def system(a):
    """The operating system that an agent names."""
    for mark, name in (
        ("not on Windows", ""), ("Windows Phone", "Windows Phone"), ("Windows Mobile", "Windows Phone"), ("iPhone", "iOS"), ("iPad", "iOS"), ("iPod", "iOS"), ("Android", "Android"), ("Silk/", "Android"),
        ("CrOS", "ChromeOS"), ("Macintosh", "macOS"), ("FreeBSD", "FreeBSD"), ("NetBSD", "NetBSD"), ("SunOS", "Solaris"),
        ("Windows", "Windows"), ("Linux", "Linux"), ("linux", "Linux"),
    ):
        if mark in a:
            return name
    return ""


def browser(a, os):
    """The program that a person used, by the most specific name in the text."""
    for mark, name in (
        ("Opera Mini/", "Opera Mini"), ("Opera/", "Opera"), ("UCBrowser", "UC Browser"), ("GSA/", "Google app"), ("Instagram", "Instagram"),
        ("Silk/", "Amazon Silk"), ("Iceweasel/", "Iceweasel"), ("Epiphany/", "Epiphany"), ("Midori/", "Midori"), ("SeaMonkey/", "SeaMonkey"),
        ("Konqueror/", "Konqueror"), ("MAXTHON", "Maxthon"), ("Maxthon", "Maxthon"), ("MSIE ", "Internet Explorer"), ("Trident/", "Internet Explorer"),
        ("Chromium/", "Chromium"), ("CriOS/", "Chrome"), ("Chrome/", "Chrome"), ("Wget/", "Wget"), ("curl/", "curl"), ("Java/", "Java"),
        ("ython", "Python"),
    ):
        if mark in a:
            return name
    if "Firefox/" in a:
        return "Firefox"
    if os == "Android" and "AppleWebKit" in a:
        return "Android Browser"
    if os == "iOS" and "Safari/" not in a and "AppleWebKit" in a:
        return "iOS WebView"
    if "Safari/" in a and "Version/" in a:
        return "Safari"
    return ""


def device(a, os):
    """desktop, mobile, tablet or unknown."""
    if os == "Android":
        if "Tablet" in a:
            return "tablet"
        if "Mobile" in a or not a.startswith("Mozilla/"):
            return "mobile"
        return "tablet"
    if os == "iOS":
        return "tablet" if "iPad" in a else "mobile"
    if os == "Windows Phone" or "Opera Mini/" in a:
        return "mobile"
    if os and a.startswith(("Mozilla/", "Opera/")):
        return "desktop"
    return "unknown"


def describe(a):
    bot = bool(SAYS_BOT.search(a))
    os = system(a)
    if bot:
        name = next((name for mark, name in BOTS if mark.lower() in a.lower()), "")
        return bot, "bot", name, os
    return bot, device(a, os), browser(a, os), os


def place(ip):
    address = ipaddress.ip_address(ip)
    for net, country, city in PLACES:
        if address in ipaddress.ip_network(net):
            return country, city
    return "", ""


def host(referrer):
    m = re.fullmatch(r"(?:https?)://([A-Za-z0-9._-]+)(?::\d+)?(?:[/?#].*)?", referrer)
    return m.group(1).lower() if m else ""


def main():
    with gzip.open("clicks.tsv.gz", "rt", encoding="utf-8", newline="\n") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:]
    clicks, bots = collections.Counter(), collections.Counter()
    visitors = collections.defaultdict(set)
    agents = collections.Counter()
    for time, ip, method, path, referrer, agent in rows:
        if method != "GET":
            continue
        at = datetime.datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z")
        agents[agent] += 1
        bot, kind, name, os = describe(agent)
        country, city = place(ip)
        first = path.split("/")[1].split("?")[0] if path.startswith("/") else ""
        link = first if first in LINKS else "elsewhere"
        hours = int((at - FIRST) / datetime.timedelta(hours=1))
        for of in (link, "*"):
            for key in (
                ("clicks", ""), ("hour", "%d" % hours), ("countries", country), ("cities", city and city + ", " + country),
                ("devices", kind), ("browsers", name), ("os", os), ("referrers", host(referrer)),
            ):
                clicks[(of,) + key] += 1
                bots[(of,) + key] += bot
            visitors[of, (at - FIRST) // DAY].add((ip, agent))
    for of in {of for of, _ in visitors}:
        clicks[of, "visitors", ""] = sum(len(who) for (o, _), who in visitors.items() if o == of)
        bots[of, "visitors", ""] = sum(sum(describe(a)[0] for _, a in who) for (o, _), who in visitors.items() if o == of)
    with open("agents.tsv", "w", encoding="utf-8", newline="\n") as f:
        f.write("clicks\tbot\tdevice\tbrowser\tos\tagent\n")
        for agent, n in sorted(agents.items(), key=lambda e: (-e[1], e[0])):
            bot, kind, name, os = describe(agent)
            f.write("%d\t%s\t%s\t%s\t%s\t%s\n" % (n, "bot" if bot else "", kind, name, os, agent))
    with open("expected.tsv", "w", encoding="utf-8", newline="\n") as f:
        f.write("link\ttable\tname\tclicks\tbots\n")
        for key in sorted(clicks):
            f.write("%s\t%d\t%d\n" % ("\t".join(key), clicks[key], bots[key]))


main()
