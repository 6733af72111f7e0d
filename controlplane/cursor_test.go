package controlplane

import (
	"errors"
	"testing"

	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestCursor_text_and_back(t *testing.T) {
	moment, err := CursorOf("100:110:100,105")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Cursor{moment, {Place: db.FeedPlace{Xid: 1 << 60, Row: hub.ID{1, 2, 3}}, Taken: 7}} {
		back, err := ParseCursor(c.String())
		if err != nil || back.String() != c.String() || back.Place != c.Place || back.Taken != c.Taken {
			t.Errorf("%+v became %+v: %v", c, back, err)
		}
	}
	for _, text := range []string{"", "x", "AAAA", moment.String()[1:], moment.String()[:50]} {
		if _, err := ParseCursor(text); !errors.Is(err, ErrBadCursor) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCursor_of_a_moment_passes_what_was_not_visible(t *testing.T) {
	c, err := CursorOf("100:110:100,105")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint64]bool{99: false, 100: true, 101: false, 105: true, 109: false, 110: true, 200: true} {
		if got := c.passes(db.FeedPlace{Xid: xid, Row: hub.ID{1}}, 0); got != want {
			t.Errorf("xid %d passes: %v", xid, got)
		}
	}
}

func TestCursor_stands_between_items(t *testing.T) {
	row := db.FeedPlace{Xid: 5, Row: hub.ID{15: 9}}
	c := Cursor{Place: row, Taken: 2}
	if c.passes(row, 1) || !c.passes(row, 2) || !c.passes(db.FeedPlace{Xid: 5, Row: hub.ID{14: 1}}, 0) || c.passes(db.FeedPlace{Xid: 4, Row: hub.ID{1}}, 9) {
		t.Error("the cursor stands elsewhere")
	}
	if comparePlaces(c.before(), row) != -1 {
		t.Errorf("before %v is %v", row, c.before())
	}
}
