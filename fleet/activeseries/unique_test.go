package activeseries

import "testing"

// TestHash expects equal hashes for items with the same labels, and different ones for others.
func TestHash(t *testing.T) {
	s := newHashSet(1 << 20)
	var form canonicalForm
	of := map[uint64]string{}
	for _, same := range [][]string{
		{`{}`, `{ }`},
		{`{"a":"1"}`, `{ "a" : "1" }`, `{"a":"\u0031"}`, `{"\u0061":"1"}`},
		{`{"a":"1","b":"2"}`, `{"b":"2","a":"1"}`, `{"b":"2", "a":"1"}`, `{"\u0062":"2","a":"1"}`},
		{`{"a":"1","ab":"2"}`, `{"ab":"2","a":"1"}`},
		{`{"a!":"1","a":"2"}`, `{"a":"2","a!":"1"}`},
		{`{"a":"2","b":"1"}`},
		{`{"a":"1\",\"b\":\"2"}`, `{"a":"1\u0022,\u0022b\u0022:\u00222"}`},
		{`{"a":"\n"}`, `{"a":"\u000a"}`},
		{`{"a":"n"}`},
		{`{"a":"é"}`, `{"a":"\u00e9"}`},
		{`{"a":""}`},
		{`{"":"a"}`},
		{`{"a":"1","a":"2"}`},
		{`{"a":"2","a":"1"}`},
	} {
		first := s.hash([]byte(same[0]), &form)
		if other, ok := of[first]; ok {
			t.Errorf("%s has the hash of %s", same[0], other)
		}
		of[first] = same[0]
		for _, item := range same[1:] {
			if s.hash([]byte(item), &form) != first {
				t.Errorf("%s has not the hash of %s", item, same[0])
			}
		}
	}
}
