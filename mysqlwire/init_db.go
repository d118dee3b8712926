package mysqlwire

// An InitDB changes the connection's current schema: COM_INIT_DB.
//
// Specification: MySQL "COM_INIT_DB", MariaDB "COM_INIT_DB".
type InitDB struct {
	Schema []byte // a view of the payload
}

// Decode reads the message. It does not allocate.
func (i *InitDB) Decode(payload []byte) error {
	*i = InitDB{}
	c, err := openCommand(payload, ComInitDB, "init db")
	if err != nil {
		return err
	}
	i.Schema = c.all()
	return nil
}

// AppendTo appends the message. It does not allocate when dst has room.
func (i InitDB) AppendTo(dst []byte) []byte {
	return append(append(dst, byte(ComInitDB)), i.Schema...)
}
