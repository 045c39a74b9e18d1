package api_test

const rateField = "spec.limits.tokensPerSecond"

var limitValidations = map[string]validation{
	"limits that are empty":         {spec: "limits: {}"},
	"limits to one a second":        {spec: "limits: {tokensPerSecond: 1}"},
	"limits to 100,000 a second":    {spec: "limits: {tokensPerSecond: 100000}"},
	"limits to none a second":       {spec: "limits: {tokensPerSecond: 0}", wantField: rateField, wantRule: "should be greater than or equal to 1"},
	"limits to less than none":      {spec: "limits: {tokensPerSecond: -1}", wantField: rateField, wantRule: "should be greater than or equal to 1"},
	"limits to 100,001 a second":    {spec: "limits: {tokensPerSecond: 100001}", wantField: rateField, wantRule: "should be less than or equal to 100000"},
	"limits to a fraction a second": {spec: "limits: {tokensPerSecond: 0.5}", wantField: rateField, wantRule: "must be of type int32"},
	"limits by a word":              {spec: "limits: {tokensPerSecond: few}", wantField: rateField, wantRule: "must be of type integer"},
}
