package querylog

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// fieldsOf returns the fields of a line with their types and values, and the error that ends them.
func fieldsOf(line string) (string, error) {
	var all []string
	f := ParseLine([]byte(line))
	for f.Next() {
		v, err := f.AppendValue([]byte("<"))
		if err != nil {
			return strings.Join(all, " "), err
		}
		all = append(all, fmt.Sprintf("%s/%d=%q", f.Name(), f.Type(), v[1:]))
	}
	if f.Next() {
		all = append(all, "another one")
	}
	return strings.Join(all, " "), f.Err()
}

// TestFieldCases has lines of both formats, whole, with each part left out, and with escapes at the ends of values.
func TestFieldCases(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "\n": "", "a:1": `a/0="1"`, "a:1\n": `a/0="1"`, "é:1": `é/0="1"`, "a:1\tb:": `a/0="1" b/0=""`, "a_9:x:y": `a_9/0="x:y"`, `a:\\\n\r\t\x00\x7f\xFF`: `a/0="\\\n\r\t\x00\x7f\xff"`, `a:\x0a`: `a/0="\n"`,
		"{}": "", `{"a":"1"}` + "\n": `a/0="1"`, `{"a":"1","b":2}`: `a/0="1" b/2="2"`, `{"a":-1.5e+3,"b":true,"c":false}`: `a/2="-1.5e+3" b/3="true" c/3="false"`, `{"a":9}`: `a/2="9"`, `{"a":0}`: `a/2="0"`,
		`{"a":[1,"]",{"b":2}],"c":{"d":["}"]}}`: `a/4="[1,\"]\",{\"b\":2}]" c/4="{\"d\":[\"}\"]}"`, `{"a_base64":"AP8="}`: `a/1="\x00\xff"`, `{"_base64":"AP8="}`: `/1="\x00\xff"`, `{"a_base64":1}`: `a_base64/2="1"`,
		`{"a":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00"}`: `a/0="\"\\/\b\f\n\r\tAé😀"`, `{"a":"\uFFFF"}`: `a/0="\uffff"`, `{"a":"x\"y"}`: `a/0="x\"y"`, `{"a":""}`: `a/0=""`,
	} {
		if got, err := fieldsOf(line); err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", line, got, err, want)
		}
	}
	for line, want := range map[string]string{ // the fields before the error
		"a": "", ":1": "", "a-b:1": "", "a:1\t": "", "a:1\tb": `a/0="1"`, "a:1\t\tb:2": `a/0="1"`, "a:1\t:2": `a/0="1"`,
		"{": "", `{"a":"1"`: "", `{a:1}`: "", `{"a"}`: "", `{"a":}`: "", `{"a"1}`: "", `{"":1}`: "", `{"a b":1}`: "", `{"a:1}`: "", `{"a":"}`: "", `{"a":"\"}`: "", "{\"a\":\"\x1f\"}": "", `{"a":null}`: "", `{"a":x}`: "",
		`{"a":1"b":2}`: `a/2="1"`, `{"a":1,}`: `a/2="1"`, `{"a":1,,"b":2}`: `a/2="1"`, `{"a":1 }`: `a/2="1"`, `{"a":[1}`: "", `{"a":["]}`: "", `{"a":[}`: "", `{,"a":1}`: "", `{"a":"1",b}`: `a/0="1"`,
		`a:\`: "", `a:\q`: "", `a:\x`: "", `a:\x0`: "", `a:\xg0`: "", `a:\x0g`: "", `a:\x0G`: "", "a:\x1f": "", "a:\x7f": "", "a:b\x00": "",
		`{"a":"\q"}`: "", `{"a":"\u"}`: "", `{"a":"\u004"}`: "", `{"a":"\u004g"}`: "", `{"a":"\ud83d"}`: "", `{"a":"\ud83dx\ude00"}`: "", `{"a":"\ud83d\u0041"}`: "", `{"a":"\ude00\ud83d"}`: "", `{"a_base64":"AP8"}`: "", `{"a_base64":"AP9="}`: "",
	} {
		if got, err := fieldsOf(line); err == nil || got != want {
			t.Errorf("%q: got %s, %v; want an error after %s", line, got, err, want)
		} else if !errors.Is(err, errLine) && !errors.Is(err, errEscape) && !strings.Contains(err.Error(), "field a") {
			t.Errorf("%q: %v", line, err)
		}
	}
	var base [200]byte
	for i := range base {
		base[i] = byte(i)
	}
	for n := range len(base) { // each byte, escaped and unescaped
		if got, err := AppendUnescaped(nil, AppendEscaped(nil, base[n:])); err != nil || string(got) != string(base[n:]) {
			t.Errorf("bytes from %d: %q, %v", n, got, err)
		}
	}
}

// TestAsText converts lines of JSON to text, and leaves the destination as it was if one is invalid.
func TestAsText(t *testing.T) {
	for line, want := range map[string]string{
		`{"a":"x\ty","b":1,"c":true}`: "a:x\\ty\tb:1\tc:true\n", `{"a_base64":"AP8="}`: "a:\\x00\\xff\n", `{"a":["\\","\"\\n"]}`: `a:["\\\\","\\"\\\\n"]` + "\n", `{"a":["x"]}`: `a:["x"]` + "\n", "{}": "\n",
		`{"a":1,"b":"\q"}`: "", `{"a":1,"b"}`: "",
	} {
		dst, _, err := appendAsText([]byte("before"), []byte(line), nil)
		if want == "" && (err == nil || string(dst) != "before") {
			t.Errorf("%s: got %q, %v", line, dst, err)
		}
		if want != "" && (err != nil || string(dst) != "before"+want) {
			t.Errorf("%s: got %q, %v; want %q", line, dst, err, want)
		}
	}
	for text, want := range map[string][]string{ // by the limit
		"aé😀": {"", "a", "a", "aé", "aé", "aé", "aé", "aé😀", "aé😀"}, "\x80\x80\x80\x80\x80\x80": {"", "\x80", "\x80\x80", "\x80\x80\x80", "\x80\x80\x80\x80"},
	} {
		for limit, want := range want {
			if got := string(cutText([]byte(text), limit)); got != want && !(text[0] == 0x80 && len(got) <= limit) {
				t.Errorf("%q, at most %d bytes: %q, want %q", text, limit, got, want)
			}
		}
	}
	if got := cutText([]byte("\x80\x80\x80\x80\x80\x80"), 5); len(got) != 5 {
		t.Errorf("text that is not UTF-8 is cut to %d bytes", len(got))
	}
}

// TestLineValues writes one field of each kind, in both formats.
func TestLineValues(t *testing.T) {
	zone := netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone("a\tb"), 5)
	for format, want := range map[Format]string{
		Text: "kind:k\ti:-5\tb:true\tn:false\td:1500\ta:[::1]:5\tz:[fe80::1%a_b]:5\th:00ff\te:Unknown column\n",
		JSON: `{"kind":"k","i":-5,"b":true,"n":false,"d":1500,"a":"[::1]:5","z":"[fe80::1%a_b]:5","h":"00ff","e":"Unknown column"}` + "\n",
	} {
		l := Line{Format: format}
		l.Begin(nil, "k")
		l.Int("i", -5)
		l.Bool("b", true)
		l.Bool("n", false)
		l.Duration("d", 1500)
		l.Addr("a", netip.MustParseAddrPort("[::1]:5"))
		l.Addr("z", zone)
		l.Hex("h", []byte{0, 255})
		l.ErrorText("e", []byte("Unknown column"))
		if got := string(l.End()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
