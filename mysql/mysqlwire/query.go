package mysqlwire

// Query returns the text of a COM_QUERY, a view of payload. With CapQueryAttributes, attributes precede it,
// which are checked and skipped. It does not allocate.
//
// Specification: MySQL "COM_QUERY", MariaDB "COM_QUERY".
func Query(payload []byte, caps Capability) (sql []byte, err error) {
	if len(payload) > 0 && payload[0] == byte(ComQuery) && caps&CapQueryAttributes == 0 {
		return payload[1:len(payload):len(payload)], nil
	}
	const what = "query"
	c, err := openCommand(payload, ComQuery, what)
	if err != nil {
		return nil, err
	}
	if !caps.Has(CapQueryAttributes) {
		return c.all(), nil
	}
	n := c.lenenc()
	sets := c.lenenc()
	if !c.short && sets != 1 {
		return nil, malformed(what, "not one set of attributes")
	}
	if c.short || n > uint64(len(c.rest)) {
		return nil, shortIn(what)
	}
	if n > 0 {
		if err := c.skipAttributes(int(n)); err != nil {
			return nil, err
		}
	}
	return c.all(), nil
}

// skipAttributes checks and skips n attributes of a query. The types and names of all of them precede the
// first value.
func (c *cursor) skipAttributes(n int) error {
	const what = "query attributes"
	nulls := c.bytes((n + 7) / 8)
	if sent := c.u8(); !c.short && sent != 1 {
		return malformed(what, "no types")
	}
	types := *c
	for range n {
		c.valueType()
		c.lenencBytes()
	}
	for i := 0; i < n && !c.short; i++ {
		v := BinaryValue{ValueType: types.valueType()}
		types.lenencBytes() // the name
		if nulls[i/8]&(1<<(i%8)) != 0 {
			continue
		}
		if err := c.binaryValue(&v, what); err != nil {
			return err
		}
	}
	return c.done(what)
}

// AppendQuery appends a COM_QUERY without attributes.
// It does not allocate when dst has room.
func AppendQuery(dst, sql []byte, caps Capability) []byte {
	dst = append(dst, byte(ComQuery))
	if caps.Has(CapQueryAttributes) {
		dst = append(dst, 0, 1)
	}
	return append(dst, sql...)
}
