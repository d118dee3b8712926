package mysqlconn

import "crypto/sha1"

// ScrambleNative returns the client's response to a challenge by mysql_native_password: SHA1(password) xor
// SHA1(challenge + SHA1(SHA1(password))), or nothing for an empty password. Only the first 20 bytes of the
// challenge are used.
//
// Specification: MySQL "Native Authentication", MariaDB "mysql_native_password Plugin".
func ScrambleNative(password string, challenge []byte) []byte {
	if password == "" {
		return nil
	}
	stage1 := sha1.Sum([]byte(password))
	stage2 := sha1.Sum(stage1[:])
	h := sha1.New()
	h.Write(scramble20(challenge))
	h.Write(stage2[:])
	resp := h.Sum(nil)
	xor(resp, stage1[:])
	return resp
}

// scrambleLen is the length in bytes of the challenge of all methods but ed25519.
const scrambleLen = 20

// scramble20 truncates the NUL byte that follows a challenge on the wire.
func scramble20(challenge []byte) []byte { return challenge[:min(len(challenge), scrambleLen)] }

// xor combines b with key, repeated, in place.
func xor(b, key []byte) {
	for i := range b {
		b[i] ^= key[i%len(key)]
	}
}
