// Package access decides which HTTP account may call which endpoint.
//
// A Need is declared for every endpoint: the minimum role, whether its response has statement texts, and
// whether the call changes state. A Gate authenticates requests against a file of accounts and enforces the
// Need. Statement texts are normalized statements, bind values and data derived from them, such as the tables
// of a plan; digests, schemas, users and metrics are not texts.
//
//	request ──> Gate.Require(need, handler) ── 401: no valid account, and which role is required
//	                      │                 ── 403: the account's role is too low, or it sees no texts
//	                      └─> handler, with the Account in the context: SeesTexts, Of
//
// Passwords are bcrypt hashes, bearer tokens SHA-256 hashes. The file is reloaded when it changes. Without a
// file every client is an operator with statement texts.
package access
