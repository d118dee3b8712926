package mysqlwire

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

// FuzzPackets checks that no decoder panics on any payload, and that decoded messages survive
// a round trip.
func FuzzPackets(f *testing.F) {
	index := map[string]int{}
	for i, c := range codecs() {
		index[c.name] = i
	}
	for _, s := range samples {
		f.Add(uint8(index[s.codec]), uint64(s.caps), unhex(f, s.payload))
	}
	all := codecs()
	f.Fuzz(func(t *testing.T, which uint8, caps uint64, payload []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		c := all[int(which)%len(all)]
		if err := c.decode(payload, Capability(caps)); err != nil {
			return
		}
		if len(payload) > 1<<10 { // a value is printed for comparison
			return
		}
		checkRoundTrip(t, c, Capability(caps))
	})
}

// FuzzLenencInt encodes a number and decodes it.
func FuzzLenencInt(f *testing.F) {
	for _, v := range []uint64{0, 250, 251, 1<<16 - 1, 1 << 16, 1<<24 - 1, 1 << 24, 1<<64 - 1} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v uint64) {
		enc := AppendLenencInt(nil, v)
		if got, n := LenencInt(enc); got != v || n != len(enc) {
			t.Errorf("LenencInt(AppendLenencInt(%d)) = %d, %d", v, got, n)
		}
		if got := lenencSize(int(v >> 1)); got != len(AppendLenencInt(nil, v>>1)) {
			t.Errorf("lenencSize(%d) = %d", v>>1, got)
		}
	})
}

// FuzzStateChanges checks that iterating over any session state terminates without a panic, and
// that the changes found survive a round trip.
func FuzzStateChanges(f *testing.F) {
	for t := StateSystemVariable; t <= StateTransaction+1; t++ {
		f.Add(StateChange{Type: t, Name: []byte("autocommit"), Value: []byte("ON")}.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		var again []byte
		n := 0
		it := stateChanges(state)
		for it.Next() {
			again = it.Change().AppendTo(again)
			n++
		}
		second := stateChanges(again)
		for second.Next() {
			n--
		}
		if err := second.Err(); err != nil || n != 0 {
			t.Errorf("%x encoded again is %x: %v, %d changes lost", state, again, err, n)
		}
		if it.Err() == nil && len(again) > len(state) {
			t.Errorf("%x grew to %x", state, again)
		}
	})
}

// FuzzAttributes iterates over arbitrary connection attributes.
func FuzzAttributes(f *testing.F) {
	f.Add(AppendAttribute(nil, "_client_name", "tare"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		var again []byte
		it := Attributes(raw)
		for it.Next() {
			again = AppendAttribute(again, string(it.Name()), string(it.Value()))
		}
		if it.Err() == nil && len(again) > len(raw) {
			t.Errorf("%x grew to %x", raw, again)
		}
		second := Attributes(again)
		for second.Next() {
		}
		if err := second.Err(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzQueryAttributes checks that Query returns the text after the attributes, and that the bytes of the
// attributes decode to as many values as the attributes of a statement without parameters.
func FuzzQueryAttributes(f *testing.F) {
	for _, s := range samples {
		if s.codec == "query" {
			f.Add(unhex(f, s.payload))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		sql, err := Query(payload, CapQueryAttributes)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(payload, sql) {
			t.Fatalf("the text %q does not end the packet %x", sql, payload)
		}
		count, n := LenencInt(payload[1:])
		if count == 0 || n == 0 {
			return
		}
		attrs := append([]byte(nil), payload[1:len(payload)-len(sql)]...)
		_, sets := LenencInt(attrs[n:])
		execute := StmtExecute{Flags: ExecuteParamCount, Params: append(attrs[:n:n], attrs[n+sets:]...)}
		var params StmtParams
		params.Reset(0)
		if err := params.Decode(&execute, CapQueryAttributes); err != nil || uint64(len(params.Values)) != count {
			t.Errorf("%x as parameters: %d of %d, %v", execute.Params, len(params.Values), count, err)
		}
	})
}
