package stmtstats

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/teststmt"
)

// longStatement returns a statement as an ORM writes it, of about n bytes.
func longStatement(n int) []byte {
	text := []byte("SELECT ")
	for i := 0; len(text) < n; i++ {
		text = append(text, "`t0`.`a_column_with_a_long_name_"...)
		text = append(text, byte('a'+i%26))
		text = append(text, "` AS `c`, "...)
	}
	return append(text[:n-len(" FROM `orders`")], " FROM `orders`"...)
}

// TestLongTexts stores the whole texts of long statements, also in a file that is opened again, and cuts those past MaxText.
func TestLongTexts(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	table := mustOpen(t, o)
	short, long := teststmt.Record(1, 1), teststmt.Record(2, 2)
	short.Normalized, long.Normalized = longStatement(1500), longStatement(20<<10)
	table.Observe(short)
	table.Observe(long)
	check := func() {
		t.Helper()
		texts, cut := make(map[[16]byte]string), make(map[[16]byte]bool)
		if err := table.Each(func(s *Sample) error {
			if s.Text != "" {
				texts[s.Key.Digest], cut[s.Key.Digest] = s.Text, s.TextCut
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if texts[short.Digest] != string(short.Normalized) || cut[short.Digest] {
			t.Errorf("the text of 1,500 bytes has %d, cut %t", len(texts[short.Digest]), cut[short.Digest])
		}
		if texts[long.Digest] != string(long.Normalized[:DefaultMaxText]) || !cut[long.Digest] {
			t.Errorf("the text of 20 KiB has %d bytes, cut %t", len(texts[long.Digest]), cut[long.Digest])
		}
		found := map[[16]byte]string{short.Digest: "SELECT", long.Digest: "SELECT"}
		table.LongerTexts(found)
		if len(found[short.Digest]) != 1500 || len(found[long.Digest]) != DefaultMaxText {
			t.Errorf("longer texts have %d and %d bytes", len(found[short.Digest]), len(found[long.Digest]))
		}
		if want := longPages(1500) + longPages(DefaultMaxText); table.longPages != want {
			t.Errorf("%d pages of long texts, want %d", table.longPages, want)
		}
	}
	check()
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	table = mustOpen(t, o)
	defer func() { _ = table.Close() }()
	check()
}

// TestLongTextsAreBounded observes statements with long texts until their part of the memory is used: those after them are
// cut, and all of them are counted separately.
func TestLongTextsAreBounded(t *testing.T) {
	const digests = 2000
	table := mustOpen(t, Options{MaxDigests: digests, Bytes: 8 << 20})
	defer func() { _ = table.Close() }()
	r := teststmt.Record(0, 0)
	r.Normalized = bytes.Repeat([]byte("SELECT ?, "), 3000)
	for n := range digests {
		r.Digest[1], r.Digest[2] = byte(n>>8), byte(n)
		table.Observe(r)
	}
	whole, cut := 0, 0
	if err := table.Each(func(s *Sample) error {
		switch {
		case len(s.Text) > shortText:
			whole++
		case s.TextCut:
			cut++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s := table.Stats()
	if s.Digests != digests || s.Untracked != 0 || whole+cut != digests || whole == 0 || cut == 0 {
		t.Errorf("%+v; %d long texts and %d cut ones", s, whole, cut)
	}
	if most := len(table.mem.pages) / longTextPart; table.longPages > most || table.longPages < most/2 {
		t.Errorf("%d pages of long texts, want at most %d", table.longPages, most)
	}
	sum := 0
	for i := range table.mem.entries {
		sum += longPages(int(table.mem.entries[i].text.bytes))
	}
	if sum != table.longPages {
		t.Errorf("%d pages of long texts counted, want %d", table.longPages, sum)
	}
}
