"""One answer as a client receives it, over any number of connections: every event once and in order."""

from wire import TERMINAL


class Answer:
    """The events of one answer that a client has received, over all its connections."""

    def __init__(self):
        self.text = ""
        self.id = None
        self.number = -1  # sequence_number of the newest event
        self.seq = None  # ringside.seq of the newest event
        self.final = None
        self.deltas = 0

    def hear(self, event):
        """Records the next event, which must be new; returns true after the terminal event."""
        assert event["type"] != "error", event
        if event["type"].startswith("ringside:"):
            return False
        # A slow reader gets several deltas merged into one, with the number of the last.
        merged = event["type"] == "response.output_text.delta"
        expected = self.number + 1
        assert event["sequence_number"] == expected or merged and event["sequence_number"] > expected, (expected, event)
        self.number = event["sequence_number"]
        if "ringside" in event:
            assert self.seq is None or event["ringside"]["seq"] > self.seq, (self.seq, event)
            self.seq = event["ringside"]["seq"]
        if event["type"] == "response.created":
            self.id = event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            self.text += event["delta"]
            self.deltas += 1
        elif event["type"] == "response.output_text.done":
            assert event["text"] == self.text, (event["text"], self.text)
        if event["type"] in TERMINAL:
            self.final = event["response"]
        return self.final is not None
