package binlog

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of events to the documentation")

// TestEventTypes gives a reader an event of every type: it stops at those that the table says, unless the server marks
// them as ignorable, and knows all others.
func TestEventTypes(t *testing.T) {
	for kind := range 256 {
		r, _ := newLogReader(described(intColumn), "")
		log := &logBuilder{offset: 4}
		e := log.event(eventType(kind), make([]byte, 60))
		_, err := r.read(e)
		unknown := errors.Is(err, errEventType)
		if want := slices.Contains([]int{0, 1, 6, 7, 8, 10, 12, 20, 21, 22}, kind) || kind > 42 && kind < 160 || kind > 171; want != unknown {
			t.Errorf("type %d: %v", kind, err)
		}
		effect := eventTypes[kind].effect
		if unknown != (effect == eventStops) || effect == eventSkipped && err != nil {
			t.Errorf("type %d, which is %v: %v", kind, effect, err)
		}
		if listed := kind <= 42 || kind >= 160 && kind <= maxEventType; listed != (eventTypes[kind].name != "") || listed != (eventTypes[kind].why != "") {
			t.Errorf("type %d: %+v", kind, eventTypes[kind])
		}
		binary.LittleEndian.PutUint16(e[17:], eventIgnorable)
		if r, _ := newLogReader(described(intColumn), ""); unknown {
			if _, err := r.read(e); err != nil {
				t.Errorf("type %d that may be ignored: %v", kind, err)
			}
		}
	}
}

// TestDocs compares the events that stop a copy, in the documentation, with the package's.
func TestDocs(t *testing.T) {
	const file, begin, end = "EVENTS.md", "<!-- events: written by go test ./mysql/binlog -run TestDocs -rewrite -->\n", "<!-- end of events -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no list of events", file)
	}
	var b strings.Builder
	separator := ""
	for kind, e := range eventTypes {
		if e.name != "" && e.effect == eventStops {
			fmt.Fprintf(&b, "%s`%s` (%d)", separator, e.name, kind)
			separator = ", "
		}
	}
	b.WriteString(".\n")
	want := before + begin + b.String() + end + after
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is stale: run go test ./mysql/binlog -run TestDocs -rewrite", file)
	}
}
