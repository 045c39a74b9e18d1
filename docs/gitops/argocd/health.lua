-- Argo CD health check for Realms and ApiClients. Argo CD calls it with the object as obj.

local hs = { status = "Progressing", message = "Waiting for the operator to process this object." }

-- Ignore conditions that don't reflect the current spec.
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return hs
end

local ready, stalled
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" then
    ready = condition
  elseif condition.type == "Stalled" then
    stalled = condition.status == "True"
  end
end
if ready == nil then
  return hs
end

hs.message = ready.message
if ready.status == "True" then
  hs.status = "Healthy"
elseif stalled then
  hs.status = "Degraded" -- user action needed
elseif ready.reason == "Suspended" or ready.reason == "RealmSuspended" or ready.reason == "Expired" then
  hs.status = "Suspended" -- as the manifest of the object or its realm requests
end
-- All other reasons resolve when another object is created or fixed, such as the client's realm.
-- Degraded would fail a sync that only needs to wait for its next wave.
return hs
