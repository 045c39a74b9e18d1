package api_test

import "strings"

const (
	secretIntervalField = ".rotation.interval"
	secretIntervalRule  = "spec.secret.generated.rotation.interval must be at least 1h"

	overlapField = ".rotation.overlap"
	overlapRule  = "spec.secret.generated.rotation.overlap must be shorter than spec.secret.generated.rotation.interval, which is "

	secretRotateAfterField = ".rotation.rotationRequestTime"

	endWhenUnusedField = ".rotation.expireWhenUnused"
	endWhenUnusedRule  = "spec.secret.generated.rotation.expireWhenUnused."
)

// secretRotationValidations covers the rotation schedule in spec.secret.generated.
var secretRotationValidations = map[string]validation{
	"empty rotation": generated("rotation: {}", "", ""),

	"secret interval of 1h":                        generated("rotation: {interval: 1h}", "", ""),
	"secret interval of years":                     generated("rotation: {interval: 99999h99999h99999h}", "", ""),
	"secret interval of 59m59s":                    generated("rotation: {interval: 59m59s}", secretIntervalField, `Invalid value: "59m59s": `+secretIntervalRule),
	"secret interval in days":                      generated("rotation: {interval: 30d}", secretIntervalField, `Invalid value: "30d": `+durationRule),
	"negative secret interval":                     generated("rotation: {interval: -1h}", secretIntervalField, durationRule),
	"secret interval as a number":                  generated("rotation: {interval: 3600}", secretIntervalField, "must be of type string"),
	"long secret interval":                         generated("rotation: {interval: "+strings.Repeat("1h", 17)+"}", secretIntervalField, "may not be more than 32"),
	"invalid secret interval with a valid overlap": generated("rotation: {interval: 30d, overlap: 1h}", secretIntervalField, durationRule),

	"overlap of 0s":                              generated("rotation: {overlap: 0s}", "", ""),
	"overlap without an interval":                generated("rotation: {overlap: 99999h}", "", ""),
	"overlap a second shorter than the interval": generated("rotation: {interval: 1h, overlap: 59m59s}", "", ""),
	"overlap equal to the interval":              generated("rotation: {interval: 1h, overlap: 60m}", overlapField, overlapRule+"1h"),
	"overlap longer than the interval":           generated("rotation: {interval: 24h, overlap: 48h}", overlapField, overlapRule+"24h"),
	"overlap in days":                            generated("rotation: {interval: 24h, overlap: 1d}", overlapField, `Invalid value: "1d": `+durationRule),
	"overlap with a fraction":                    generated("rotation: {overlap: 1.5h}", overlapField, durationRule),
	"long overlap":                               generated("rotation: {overlap: "+strings.Repeat("1h", 17)+"}", overlapField, "may not be more than 32"),
	"overlap as a number":                        generated("rotation: {overlap: 3600}", overlapField, "must be of type string"),

	"expireWhenUnused":                                  generated("rotation: {interval: 2160h, expireWhenUnused: {after: 24h, max: 720h}}", "", ""),
	"expireWhenUnused without an interval":              generated("rotation: {expireWhenUnused: {after: 1h, max: 1h}}", "", ""),
	"expireWhenUnused and overlap":                      generated("rotation: {overlap: 1h, expireWhenUnused: {after: 24h, max: 720h}}", endWhenUnusedField, "remove one of them"),
	"expireWhenUnused without after":                    generated("rotation: {expireWhenUnused: {max: 720h}}", endWhenUnusedField+".after", "Required value"),
	"expireWhenUnused without max":                      generated("rotation: {expireWhenUnused: {after: 24h}}", endWhenUnusedField+".max", "Required value"),
	"expireWhenUnused after 59m59s":                     generated("rotation: {expireWhenUnused: {after: 59m59s, max: 24h}}", endWhenUnusedField+".after", endWhenUnusedRule+"after must be at least 1h"),
	"expireWhenUnused after in days":                    generated("rotation: {expireWhenUnused: {after: 1d, max: 720h}}", endWhenUnusedField+".after", durationRule),
	"expireWhenUnused with after longer than max":       generated("rotation: {expireWhenUnused: {after: 25h, max: 24h}}", endWhenUnusedField+".after", endWhenUnusedRule+"after must not be longer than spec.secret.generated.rotation.expireWhenUnused.max, which is 24h"),
	"long expireWhenUnused after":                       generated("rotation: {expireWhenUnused: {after: "+strings.Repeat("1h", 17)+", max: 720h}}", endWhenUnusedField+".after", "may not be more than 32"),
	"expireWhenUnused max in days":                      generated("rotation: {expireWhenUnused: {after: 24h, max: 30d}}", endWhenUnusedField+".max", durationRule),
	"long expireWhenUnused max":                         generated("rotation: {expireWhenUnused: {after: 24h, max: "+strings.Repeat("1h", 17)+"}}", endWhenUnusedField+".max", "may not be more than 32"),
	"expireWhenUnused max a second under interval":      generated("rotation: {interval: 24h, expireWhenUnused: {after: 1h, max: 23h59m59s}}", "", ""),
	"expireWhenUnused max equal to the interval":        generated("rotation: {interval: 24h, expireWhenUnused: {after: 1h, max: 24h}}", endWhenUnusedField+".max", endWhenUnusedRule+"max must be shorter than spec.secret.generated.rotation.interval, which is 24h"),
	"secret rotationRequestTime in UTC":                 generated("rotation: {rotationRequestTime: '2026-03-01T12:00:00Z'}", "", ""),
	"secret rotationRequestTime with a fraction":        generated("rotation: {rotationRequestTime: '2026-03-01T12:00:00.123456789+01:00'}", "", ""),
	"secret rotationRequestTime as a date":              generated("rotation: {rotationRequestTime: '2026-03-01'}", secretRotateAfterField, "in body should match"),
	"secret rotationRequestTime on an invalid day":      generated("rotation: {rotationRequestTime: '2026-02-30T12:00:00Z'}", secretRotateAfterField, "must be of type date-time"),
	"secret rotationRequestTime with an invalid offset": generated("rotation: {rotationRequestTime: '2026-03-01T12:00:00+99:99'}", secretRotateAfterField, "in body should match"),
}
