package sqldigest

import (
	"bytes"
	"strings"
	"testing"
)

// TestLongText compares a text past MaxText with one that is kept whole, for statements that consist mainly
// of names, one name, punctuation or signs.
func TestLongText(t *testing.T) {
	for name, sql := range map[string]string{
		"names": "SELECT " + strings.Repeat("alpha, beta + 1, (2, 3), ", 5<<10) + "1",
		"name":  "SELECT `" + strings.Repeat("x``y", 50<<10) + "`, 1",
		"word":  "SELECT " + strings.Repeat("wordy", 50<<10) + ", 1",
		"punct": strings.Repeat("(,)[]", 50<<10),
		"signs": "SELECT " + strings.Repeat("- + ", 50<<10) + "1",
	} {
		t.Run(name, func(t *testing.T) {
			whole := Digester{MaxText: 16 << 20}
			want := whole.Digest([]byte(sql), 0)
			if want != OfText(whole.Text()) {
				t.Errorf("the digest is not that of the text")
			}
			for _, n := range []int{1, 777, 30 << 10, len(sql)} {
				var d Digester
				d.Reset(0)
				for p := []byte(sql); len(p) > 0; {
					k := min(n, len(p))
					d.Write(p[:k])
					p = p[k:]
				}
				if got := d.Sum(); got != want {
					t.Errorf("in pieces of %d: digest %s, want %s", n, got, want)
				}
				if !d.TextTruncated() || len(d.Text()) > DefaultMaxText || !bytes.HasPrefix(whole.Text(), d.Text()) {
					t.Errorf("in pieces of %d: %d bytes of text, truncated %v", n, len(d.Text()), d.TextTruncated())
				}
				if c := cap(d.buf); c > DefaultMaxText+3*spillRoom {
					t.Errorf("in pieces of %d: a buffer of %d bytes", n, c)
				}
				if d.Reset(0); cap(d.buf) > keptBuffer {
					t.Errorf("%d bytes of buffer after Reset", cap(d.buf))
				}
			}
		})
	}
}
