package stmtstats

// A nameTable interns names as strings.
type nameTable struct {
	kept  map[string]string
	bytes int
}

// maxNameBytes bounds the bytes of a nameTable.
const maxNameBytes = 64 << 10

// key returns an entry's Key, in strings that may be retained.
func (t *nameTable) key(e *entry, pages []page) Key {
	b := e.nameBytes(pages)
	s, u := int(e.schemaBytes), int(e.schemaBytes)+int(e.userBytes)
	return Key{Digest: e.digest, Schema: t.name(b[:s]), User: t.name(b[s:u]), Backend: t.name(b[u:])}
}

func (t *nameTable) name(b []byte) string {
	if s, ok := t.kept[string(b)]; ok {
		return s
	}
	const headers = 48 // of a string as key and as value, and its map slot
	if t.bytes += len(b) + headers; t.kept == nil || t.bytes > maxNameBytes {
		t.kept = make(map[string]string)
		t.bytes = len(b) + headers
	}
	s := string(b)
	t.kept[s] = s
	return s
}
