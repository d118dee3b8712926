package stmtstats

// A nameTable gives out names as strings, the same ones as last time where possible.
type nameTable struct {
	kept  map[string]string
	bytes int
}

// maxNameBytes bounds what a nameTable keeps.
const maxNameBytes = 64 << 10

// key is an entry's Key, in strings that may be kept.
func (t *nameTable) key(e *entry, pages []page) Key {
	b := e.nameBytes(pages)
	s, u := int(e.schemaBytes), int(e.schemaBytes)+int(e.userBytes)
	return Key{Digest: e.digest, Schema: t.name(b[:s]), User: t.name(b[s:u]), Backend: t.name(b[u:])}
}

func (t *nameTable) name(b []byte) string {
	if s, ok := t.kept[string(b)]; ok {
		return s
	}
	const headers = 48 // of a string as key and as value, and its place in the map
	if t.bytes += len(b) + headers; t.kept == nil || t.bytes > maxNameBytes {
		t.kept = make(map[string]string)
		t.bytes = len(b) + headers
	}
	s := string(b)
	t.kept[s] = s
	return s
}
