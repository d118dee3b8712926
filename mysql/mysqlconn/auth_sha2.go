package mysqlconn

import "crypto/sha256"

// ScrambleSHA2 returns the client's first response to a challenge by caching_sha2_password: SHA256(password)
// xor SHA256(SHA256(SHA256(password)) + challenge), or nothing for an empty password. A server that has
// cached the account requires no more.
//
// Specification: MySQL "Caching SHA-2 Pluggable Authentication" (Protocol, authentication).
func ScrambleSHA2(password string, challenge []byte) []byte {
	if password == "" {
		return nil
	}
	stage1 := sha256.Sum256([]byte(password))
	stage2 := sha256.Sum256(stage1[:])
	h := sha256.New()
	h.Write(stage2[:])
	h.Write(scramble20(challenge))
	resp := h.Sum(nil)
	xor(resp, stage1[:])
	return resp
}
