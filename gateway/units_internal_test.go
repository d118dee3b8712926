package gateway

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestPinnedError lists up to three sessions.
func TestPinnedError(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, 4: 3, 9: 3} {
		e := &PinnedError{}
		for i := range n {
			e.Sessions = append(e.Sessions, PinnedSession{Connection: uint32(i + 1), User: "u", Reason: "reason"})
		}
		text := e.Error()
		if got := strings.Count(text, "reason"); got != want || strings.Count(text, "…") != min(1, max(0, n-3)) || !strings.HasPrefix(text, fmt.Sprint(n, " sessions")) {
			t.Errorf("%d sessions: %s", n, text)
		}
	}
}

// TestLiveBuckets has durations at the bounds of their buckets: the value of a bucket is within a thirty-second of its durations.
func TestLiveBuckets(t *testing.T) {
	last := -1
	for us := range uint64(1 << 13) {
		b := liveBucket(us)
		if b < last || b > last+1 {
			t.Fatalf("%d µs are in bucket %d, %d in %d", us-1, last, us, b)
		}
		last = b
		if v := liveValue(b); v < float64(us)*(1-1./liveSub) || v > float64(us)*(1+1./liveSub) || us < 2*liveSub && v != float64(us) {
			t.Errorf("%d µs are in bucket %d of %v µs", us, b, v)
		}
	}
	for e := range 40 {
		us := uint64(1) << (e + 13)
		b := liveBucket(us)
		if b == liveBuckets-1 {
			break
		}
		if before := liveBucket(us - 1); before != b-1 {
			t.Errorf("%d µs are in bucket %d, one less in %d", us, b, before)
		}
		if low, high := liveValue(b-1), liveValue(b); low >= float64(us) || high <= float64(us) || high > float64(us)*(1+1./liveSub) {
			t.Errorf("%d µs are between the buckets of %v and %v µs", us, low, high)
		}
	}
	if b := liveBucket(1 << 62); b != liveBuckets-1 {
		t.Errorf("the longest are in bucket %d of %d", b, liveBuckets)
	}
}

// TestTypesAt finds the flag for parameter types in an EXECUTE.
func TestTypesAt(t *testing.T) {
	head := strings.Repeat("x", 10)
	for _, c := range []struct {
		params uint16
		attrs  bool // the connection has query attributes
		body   string
		at     int
		sent   bool
	}{
		{1, false, head + "\x00\x01", 11, true},
		{1, false, head + "\x00\x00", 11, false},
		{8, false, head + "\x00\x01", 11, true},
		{9, false, head + "\x00\x00\x01", 12, true},
		{1, false, head + "\x00", 0, false},
		{1, false, head, 0, false},
		{1, true, head + "\x01\x00\x01", 12, true},
		{1, true, head + "\x02\x00\x01", 12, true},
		{1, true, head + "\x02\x00\x00", 0, false},
		{1, true, head + "\x00\x00\x01", 0, false},
		{1, true, head + "\xfc\x01\x00\x00\x01", 14, true},
		{1, true, head + "\xfc", 0, false},
		{0, true, head, 0, false},
		{0, true, head + "\x00", 0, false},
		{300, true, head + "\xfc\x2c\x01" + strings.Repeat("\x00", 38) + "\x01", 51, true},
	} {
		caps := mysqlwire.Capability(0)
		if c.attrs {
			caps = mysqlwire.CapQueryAttributes
		}
		st := &preparedStatement{paramCount: c.params}
		if at, sent := st.typesAt([]byte(c.body), caps); at != c.at || sent != c.sent {
			t.Errorf("%d parameters, %q: %d, %t, want %d, %t", c.params, c.body, at, sent, c.at, c.sent)
		}
	}
}

// TestClientTLSOptions has each mode with and without certificates of authorities.
func TestClientTLSOptions(t *testing.T) {
	for mode, want := range map[ClientTLSMode]string{
		ClientTLSOff: "", ClientTLSPreferred: "", ClientTLSRequired: "", ClientTLSVerify: "requires CA certificates", "other": `"other" is unknown`,
	} {
		o := Options{ClientTLS: mode}
		if err := o.validateClientTLS(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", mode, err, want)
		}
		o.ClientCAs = x509.NewCertPool()
		if err := o.validateClientTLS(); (err == nil) != (mode != "other") {
			t.Errorf("%s with CA certificates: %v", mode, err)
		}
	}
}

// TestWalk walks the packets of a message that arrives in pieces: its end is found, and a wrong sequence number.
func TestWalk(t *testing.T) {
	message, _ := mysqlwire.AppendPacket(nil, make([]byte, mysqlwire.MaxPayload+5), 0)
	next := "\x01\x00\x00\x00x"
	for _, piece := range []int{1 << 20, mysqlwire.MaxPayload + 3, mysqlwire.MaxPayload + 4, mysqlwire.MaxPayload + 7, mysqlwire.MaxPayload + 8, len(message), len(message) + len(next)} {
		b := append(message[:len(message):len(message)], next...)
		p := &packets{size: mysqlwire.MaxPayload, left: mysqlwire.MaxPayload}
		at, consumed := mysqlwire.HeaderLen, 0
		for end := min(piece, len(b)); !p.done; end = min(end+piece, len(b)) {
			n, err := p.walk(b[consumed:end], at, nil)
			if err != nil {
				t.Fatalf("pieces of %d bytes: %v", piece, err)
			}
			at = 0
			if consumed += n; n == 0 && end == len(b) {
				break
			}
		}
		if consumed != len(message) || p.seq != 1 || p.size != 5 {
			t.Errorf("pieces of %d bytes: the message has %d, found %d", piece, len(message), consumed)
		}
	}
	wrong := append([]byte(nil), message...)
	wrong[mysqlwire.HeaderLen+mysqlwire.MaxPayload+3]++
	p := &packets{left: mysqlwire.MaxPayload}
	if _, err := p.walk(wrong, mysqlwire.HeaderLen, nil); err == nil || !strings.Contains(err.Error(), "sequence number 2 within a command, want 1") {
		t.Errorf("got %v", err)
	}
}
