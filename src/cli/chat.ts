export async function chat(): Promise<void> {}
