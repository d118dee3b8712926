package mysqlwire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestExchanges replays the conversations in testdata/exchanges: annotated bytes of packets, with their
// headers, and the decoded fields.
//
//	caps                  the capabilities, by name, of the packets that follow
//	packet kind=… [seq=n] one packet in hex; a comment goes from # to the line's end
func TestExchanges(t *testing.T) {
	datadriven.Walk(t, "testdata/exchanges", func(t *testing.T, path string) {
		var caps Capability
		byName := map[string]codec{}
		for _, c := range codecs() {
			byName[strings.ReplaceAll(c.name, " ", "-")] = c
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "caps":
				caps = 0
				for name := range strings.FieldsSeq(d.Input) {
					caps |= capabilityByName(t, name)
				}
				return caps.String() + "\n"
			case "packet":
				var kind string
				d.ScanArgs(t, "kind", &kind)
				c, ok := byName[kind]
				if !ok {
					d.Fatalf(t, "no packet of kind %q", kind)
				}
				return showPacket(t, d, c, caps)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func capabilityByName(t *testing.T, name string) Capability {
	t.Helper()
	for i, n := range capabilityNames {
		if n == name {
			return 1 << i
		}
	}
	t.Fatalf("no capability %q", name)
	return 0
}

func showPacket(t *testing.T, d *datadriven.TestData, c codec, caps Capability) string {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(d.Input) {
		line, _, _ = strings.Cut(line, "#")
		text.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(text.String())
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	h := ParseHeader(b)
	payload := b[HeaderLen:]
	if h.Len != len(payload) {
		d.Fatalf(t, "the header says %d bytes, there are %d", h.Len, len(payload))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "seq %d, %d bytes\n", h.Seq, h.Len)
	if err := c.decode(payload, caps); err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
		return out.String()
	}
	describe(&out, reflect.ValueOf(c.value).Elem())
	if again := c.encode(nil, caps); !bytes.Equal(again, payload) {
		fmt.Fprintf(&out, "encoded again: %x\n", again)
	}
	return out.String()
}

// describe writes the fields of a packet that are not zero.
func describe(out *strings.Builder, v reflect.Value) {
	switch value := v.Interface().(type) {
	case TextRow:
		for i, field := range value {
			fmt.Fprintf(out, "  %d: %s\n", i, show(reflect.ValueOf(field)))
		}
		return
	case BinaryRow:
		for i, field := range value {
			text, _ := field.AppendText(nil)
			fmt.Fprintf(out, "  %d: %v %q\n", i, field.Type, text)
		}
		return
	case StmtParams:
		for i, field := range value.Values {
			text, _ := field.AppendText(nil)
			fmt.Fprintf(out, "  %d: %v %q\n", i, field.Type, text)
		}
		return
	case []byte:
		fmt.Fprintf(out, "  %q\n", value)
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && !v.Field(i).IsZero() {
			fmt.Fprintf(out, "  %s: %s\n", f.Name, show(v.Field(i)))
		}
	}
}

func show(v reflect.Value) string {
	if b, ok := v.Interface().([]byte); ok {
		if b == nil {
			return "NULL"
		}
		return fmt.Sprintf("%q", b)
	}
	if state, ok := v.Interface().([5]byte); ok {
		return string(state[:])
	}
	return fmt.Sprint(v.Interface())
}
