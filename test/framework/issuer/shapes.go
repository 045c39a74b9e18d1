package issuer

import "time"

// Claims are the claims of a token that a platform signs for a workload. The tests use the names,
// types, and forms of the platform's real tokens.
type Claims map[string]any

// Claims of the workloads in the tests.
const (
	GitHubSubject = "repo:acme@4711/shop@8215:environment:production"
	GitLabSubject = "project_path:acme/shop:ref_type:branch:ref:main"
	GoogleSubject = "110987294251917851298"
	AWSSubject    = "arn:aws:iam::123456789012:role/orders"
)

// GitHub returns the claims of a job in GitHub Actions. All claims that workflows can influence are
// strings. The token is valid for 5 minutes.
func GitHub(issuer, audience string, now time.Time) Claims {
	return Claims{
		"iss": issuer, "aud": audience, "sub": GitHubSubject, "jti": "1e41c9f2-5a8c-4f0e-9a37-6d0f3a0c8d11",
		"iat": now.Unix(), "nbf": now.Add(-5 * time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"actor": "jdoe", "actor_id": "285964", "base_ref": "", "check_run_id": "96193868770",
		"enterprise": "acme-inc", "enterprise_id": "99", "environment": "production", "environment_node_id": "EN_kwDOABCD",
		"event_name": "push", "head_ref": "",
		"job_workflow_ref": "acme/shop/.github/workflows/deploy.yaml@refs/heads/main", "job_workflow_sha": "b896ab8ec62b1f9cc7c1e6d2f2ac2fd3b8f6f0aa",
		"ref": "refs/heads/main", "ref_protected": "true", "ref_type": "branch",
		"repository": "acme/shop", "repository_id": "8215", "repository_owner": "acme", "repository_owner_id": "4711", "repository_visibility": "private",
		"run_attempt": "1", "run_id": "32291736541", "run_number": "17", "runner_environment": "github-hosted",
		"sha": "b896ab8ec62b1f9cc7c1e6d2f2ac2fd3b8f6f0aa", "workflow": "deploy",
		"workflow_ref": "acme/shop/.github/workflows/deploy.yaml@refs/heads/main", "workflow_sha": "b896ab8ec62b1f9cc7c1e6d2f2ac2fd3b8f6f0aa",
	}
}

// GitLab returns the claims of a job in GitLab CI. One claim is a number, and some are lists. The
// token is valid for as long as the job can run.
func GitLab(issuer, audience string, now time.Time) Claims {
	return Claims{
		"iss": issuer, "aud": audience, "sub": GitLabSubject, "jti": "235b3a54-b797-45c7-ae9a-f72d7bc6ef5b",
		"iat": now.Unix(), "nbf": now.Add(-5 * time.Second).Unix(), "exp": now.Add(time.Hour).Unix(),
		"namespace_id": "72", "namespace_path": "acme", "project_id": "20", "project_path": "acme/shop", "project_visibility": "private",
		"user_id": "1", "user_login": "jdoe", "user_email": "jdoe@example.com", "user_access_level": "owner",
		"user_identities": []any{map[string]any{"provider": "github", "extern_uid": "2435223452345"}},
		"pipeline_id":     "574", "pipeline_source": "push", "job_id": "302",
		"ref": "main", "ref_type": "branch", "ref_path": "refs/heads/main", "ref_protected": "true",
		"groups_direct": []any{"acme", "acme/shops"}, "environment": "production", "environment_protected": "true",
		"deployment_tier": "production", "environment_action": "start", "runner_id": 1, "runner_environment": "self-hosted",
		"sha":               "714a629c0b401fdce83e847fc9589983fc6f46bc",
		"ci_config_ref_uri": "gitlab.example.com/acme/shop//.gitlab-ci.yml@refs/heads/main", "ci_config_sha": "714a629c0b401fdce83e847fc9589983fc6f46bc",
	}
}

// Google returns the claims of a Google Cloud service account, as the metadata server returns them
// with format=full. There are no jti and nbf.
func Google(issuer, audience string, now time.Time) Claims {
	return Claims{
		"iss": issuer, "aud": audience, "sub": GoogleSubject, "azp": GoogleSubject,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": "orders@acme.iam.gserviceaccount.com", "email_verified": true,
		"google": map[string]any{"compute_engine": map[string]any{
			"instance_creation_timestamp": 1595155766, "instance_id": "4340508760561261530", "instance_name": "vm",
			"project_id": "acme", "project_number": 716149158341, "zone": "us-central1-a",
		}},
	}
}

// AWS returns the claims of an IAM role, as STS signs them for other clouds. Its own claims are in an
// object.
func AWS(issuer, audience string, now time.Time) Claims {
	return Claims{
		"iss": issuer, "aud": audience, "sub": AWSSubject, "jti": "5f3c9a1e-9d84-4d43-8f5b-4f0f5f0a2b11",
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"https://sts.amazonaws.com/": map[string]any{
			"aws_account": "123456789012", "source_region": "eu-central-1", "org_id": "o-abc1234567",
			"principal_tags": map[string]any{"team": "orders"}, "lambda_source_function_arn": "arn:aws:lambda:eu-central-1:123456789012:function:orders",
		},
	}
}
