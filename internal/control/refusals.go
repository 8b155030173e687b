// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// RefusedAgain is how long it takes until what the server refuses as invalid is asked for
// once more. Mostly it stays invalid until somebody edits an object, which is told of; but
// the rule that refused it, an admission policy say, may be lifted, and nothing tells of
// that.
const RefusedAgain = 10 * time.Minute
