#!/usr/bin/env python3
"""A cable between two interfaces that loses, delays, repeats and damages frames.

    bad_link.py A B SETTINGS REPORT

SETTINGS is a JSON file, read again whenever it changes: the shares `loss`, `late`,
`duplicate` and `corrupt` (0 to 1), `late_ms`, and `seed`. REPORT is written after every
change: per direction and length, how many frames came, and how many were lost, repeated
and damaged. Linux' own netem does the same, but is not in every kernel.
"""

import collections
import heapq
import json
import os
import random
import select
import socket
import sys
import time

ALL = socket.htons(3)
OUTGOING = 4
FORCE_RCVBUF = 33


def attach(interface):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ALL)
    # A burst waits here; what does not fit would be lost without being counted.
    end.setsockopt(socket.SOL_SOCKET, FORCE_RCVBUF, 32 << 20)
    end.bind((interface, 0))
    end.setblocking(False)
    return end


def damaged(frame, dice):
    frame = bytearray(frame)
    frame[dice.randrange(len(frame))] ^= 1 << dice.randrange(8)
    return bytes(frame)


class Link:
    def __init__(self, a, b, settings, report):
        self.ends = [attach(a), attach(b)]
        self.names = [f"{a}>{b}", f"{b}>{a}"]
        self.settings, self.report = settings, report
        self.read_at = self.written_at = 0.0
        self.seen = None
        self.counts = collections.Counter()
        self.told = None
        self.late = []
        self.number = 0
        self.reload()

    def reload(self):
        stat = os.stat(self.settings)
        if self.seen == (stat.st_mtime_ns, stat.st_ino):
            return
        self.seen = (stat.st_mtime_ns, stat.st_ino)
        with open(self.settings) as file:
            now = json.load(file)
        self.shares = {name: now.get(name, 0) for name in ("loss", "late", "duplicate", "corrupt")}
        self.late_s = now.get("late_ms", 0) / 1000
        self.dice = random.Random(now.get("seed", 1))

    def count(self, way, what, frame):
        self.counts[f"{self.names[way]} {what} {len(frame)}"] += 1

    def happens(self, what):
        share = self.shares[what]
        return share > 0 and self.dice.random() < share

    def take(self, way, frame):
        self.count(way, "came", frame)
        if self.happens("loss"):
            self.count(way, "lost", frame)
            return
        copies = [frame]
        if self.happens("duplicate"):
            self.count(way, "repeated", frame)
            copies.append(frame)
        for copy in copies:
            if self.happens("corrupt"):
                self.count(way, "damaged", frame)
                copy = damaged(copy, self.dice)
            if self.happens("late"):
                self.number += 1
                heapq.heappush(self.late, (time.monotonic() + self.late_s, self.number, way, copy))
            else:
                self.send(way, copy)

    def send(self, way, frame):
        try:
            self.ends[1 - way].send(frame)
        except OSError as error:
            print(f"{self.names[way]}: {error}", file=sys.stderr, flush=True)

    def write(self):
        if self.told != self.counts:
            self.told = self.counts.copy()
            with open(self.report + ".new", "w") as file:
                json.dump(self.told, file)
            os.rename(self.report + ".new", self.report)

    def run(self):
        while True:
            now = time.monotonic()
            while self.late and self.late[0][0] <= now:
                _, _, way, frame = heapq.heappop(self.late)
                self.send(way, frame)
            if now - self.read_at > 0.05:
                self.read_at = now
                self.reload()
                self.write()
            wait = min(0.05, self.late[0][0] - now) if self.late else 0.05
            ready, _, _ = select.select(self.ends, [], [], max(0, wait))
            for end in ready:
                way = self.ends.index(end)
                for _ in range(64):
                    try:
                        frame, address = end.recvfrom(65535)
                    except BlockingIOError:
                        break
                    if address[2] != OUTGOING:
                        self.take(way, frame)


if __name__ == "__main__":
    Link(*sys.argv[1:]).run()
