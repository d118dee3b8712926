package mysqlwire

// An AuthNextFactor asks for the next factor of multi-factor authentication, after one has
// been accepted. Slices are views of the payload.
//
// Specification: MySQL "Protocol::AuthNextFactor".
type AuthNextFactor struct {
	Plugin []byte
	Data   []byte // as on the wire; see AuthSwitchRequest.Data
}

// Decode reads a request for the next factor. It does not allocate.
func (a *AuthNextFactor) Decode(payload []byte) error {
	const what = "auth next factor"
	*a = AuthNextFactor{}
	c, err := open(payload, MarkNextFactor, what)
	if err != nil {
		return err
	}
	a.Plugin = c.nul()
	a.Data = c.all()
	return c.done(what)
}

// AppendTo appends the payload of a. It does not allocate when dst has room.
func (a AuthNextFactor) AppendTo(dst []byte) []byte {
	return append(appendNul(append(dst, MarkNextFactor), a.Plugin), a.Data...)
}
